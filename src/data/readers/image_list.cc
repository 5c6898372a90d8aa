#include "data/readers/image_list.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/data/epoch_order.h"
#include "data/packed/names.h"
#include "data/readers/image_walk.h"
#include "data/readers/label_table.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

// Files whose sizes every rank compares with what the others found.
constexpr std::size_t kCompared = 32;

// Appends them to the list. Both are ascending.
void append_found(FoundImages&& found, ImageList& list) {
  auto broken = found.broken.begin();
  for (std::string& image : found.images) {
    if (broken != found.broken.end() && *broken == image) {
      list.broken.push_back(list.names.size());
      ++broken;
    }
    list.names.push_back(std::move(image));
  }
}

void check_folder(const fs::path& folder) {
  if (fs::is_directory(folder)) return;
  throw UsageError(folder.native() + (fs::exists(folder) ? ": not a folder" : ": no such folder"));
}

ImageList walk(const fs::path& folder) {
  check_folder(folder);
  ImageList list;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    std::error_code error;
    const std::string name = entry.path().filename().native();
    if (entry.is_directory(error)) {
      list.classes.push_back(name);
    } else if (!is_picture_name(name) && entry.is_symlink(error) && !entry.exists(error)) {
      throw UsageError(entry.path().native() + " is a link to " +
                       fs::read_symlink(entry.path()).native() +
                       ", which is not there; if it is a class, see to it that its folder is "
                       "(mounted?), else remove the link");
    }
  }
  if (list.classes.empty())
    throw UsageError(folder.native() + ": no subfolders; there must be one for each class");
  std::sort(list.classes.begin(), list.classes.end());
  ImageWalk look(list.left_out);
  for (const std::string& name : list.classes) {
    FoundImages found = look.below(folder / name);
    if (found.images.empty()) {
      throw UsageError((folder / name).native() +
                       ": no .jpg, .jpeg or .png file for this class; remove the folder if it "
                       "is not a class, or if this is validation data, which may lack classes");
    }
    append_found(std::move(found), list);
    list.ends.push_back(list.names.size());
  }
  return list;
}

// Every line has to be of an image. This comes before images without a line, since a path that is
// mistyped, or has no tab behind it, is why there is one.
void check_lines(const std::vector<TableLine>& lines, const std::vector<std::string>& images,
                 const fs::path& folder, const LabelTable& table) {
  const TableLine* first = nullptr;
  for (const TableLine& line : lines) {
    if (std::binary_search(images.begin(), images.end(), line.path)) continue;
    if (first == nullptr || line.number < first->number) first = &line;
  }
  if (first == nullptr) return;
  throw UsageError(table.labels + ": line " + std::to_string(first->number) + ": '" + first->path +
                   "' is no .jpg, .jpeg or .png file in " + folder.native() +
                   " (a tab stands between a path and its classes)");
}

// Images and lines of the table have to be the same, both ascending.
ImageList walk(const fs::path& folder, const LabelTable& table) {
  check_folder(folder);
  ReadTable read = read_label_table(table);
  ImageList list;
  list.table = true;
  list.classes = std::move(read.classes);
  append_found(ImageWalk(list.left_out).below(folder), list);
  check_lines(read.lines, list.names, folder, table);
  for (std::size_t i = 0; i < list.names.size(); ++i) {
    if (i == read.lines.size() || list.names[i] != read.lines[i].path) {
      throw UsageError((folder / list.names[i]).native() + " has no line in " + table.labels +
                       "; for an image without labels, write its path alone");
    }
    const std::vector<std::int64_t>& labels = read.lines[i].labels;
    list.labels.insert(list.labels.end(), labels.begin(), labels.end());
    list.ends.push_back(list.labels.size());
  }
  if (list.names.empty()) throw UsageError(folder.native() + ": no .jpg, .jpeg or .png file");
  return list;
}

// What the file system says is the user's to mend.
template <class Work>
void look_together(Peers& peers, const std::string& folder, const Work& work) {
  together(peers, [&] {
    try {
      work();
    } catch (const fs::filesystem_error& e) {
      const std::string path = e.path1().empty() ? folder : e.path1().native();
      throw UsageError(path + " on " + host_name() + ": " + e.code().message());
    }
  });
}

template <class Value>
std::span<const std::byte> bytes_of(const std::vector<Value>& values) {
  return std::as_bytes(std::span(values));
}

// The sizes of all files, on rank 0: each rank has asked for those of its share.
std::vector<std::uint64_t> gather_sizes(const std::vector<std::uint64_t>& mine, std::size_t count,
                                        Peers& peers) {
  const auto ranks = static_cast<std::size_t>(peers.size());
  std::vector<std::size_t> to(ranks, 0), from(ranks, 0);
  to[0] = mine.size() * sizeof(std::uint64_t);
  std::vector<std::uint64_t> all;
  if (peers.rank() == 0) {
    all.resize(count);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const Range share = even_share({0, count}, static_cast<int>(rank), peers.size());
      from[rank] = share.size() * sizeof(std::uint64_t);
    }
  }
  peers.exchange(bytes_of(mine), to, std::as_writable_bytes(std::span(all)), from);
  return all;
}

std::uint64_t fingerprint_of(const ImageList& list, const std::vector<std::uint64_t>& sizes) {
  Xxh3 hash;
  const auto add = [&hash](const std::string& text) {
    hash.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  };
  for (const std::string& name : list.classes) add(name);
  hash.update(bytes_of(list.ends));
  hash.update(bytes_of(list.labels));
  for (std::size_t i = 0; i < list.names.size(); ++i) {
    add(list.names[i]);
    hash.update(std::as_bytes(std::span(&sizes[i], 1)));
  }
  return hash.digest();
}

void put_number(std::vector<std::byte>& to, std::size_t number) {
  for (; number >= 0x80; number >>= 7) to.push_back(static_cast<std::byte>(number | 0x80));
  to.push_back(static_cast<std::byte>(number));
}

void put_names(std::vector<std::byte>& to, const std::vector<std::string>& names) {
  put_number(to, names.size());
  std::string_view before;
  for (const std::string& name : names) {
    const auto differs = std::mismatch(name.begin(), name.end(), before.begin(), before.end());
    const auto common = static_cast<std::size_t>(differs.first - name.begin());
    put_number(to, common);
    put_number(to, name.size() - common);
    const auto rest = std::as_bytes(std::span(name)).subspan(common);
    to.insert(to.end(), rest.begin(), rest.end());
    before = name;
  }
}

// Reads what rank 0 of the same program has written.
class ListReader {
 public:
  explicit ListReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::size_t number() {
    std::size_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = std::to_integer<std::size_t>(take(1)[0]);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::vector<std::string> names() {
    std::vector<std::string> all(number());
    std::string name;
    for (std::string& each : all) {
      name.resize(number());
      const auto rest = take(number());
      name.append(reinterpret_cast<const char*>(rest.data()), rest.size());
      each = name;
    }
    return all;
  }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) throw Failure("a list of images came damaged from rank 0");
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<const std::byte> rest_;
};

}  // namespace

std::vector<std::byte> pack_list(const ImageList& list) {
  std::vector<std::byte> bytes;
  put_names(bytes, list.classes);
  put_names(bytes, list.names);
  put_number(bytes, list.table ? 1 : 0);
  for (const std::size_t end : list.ends) put_number(bytes, end);
  for (const std::size_t label : list.labels) put_number(bytes, label);
  put_number(bytes, list.broken.size());
  for (const std::size_t i : list.broken) put_number(bytes, i);
  return bytes;
}

ImageList unpack_list(const std::vector<std::byte>& bytes) {
  ListReader reader(bytes);
  ImageList list;
  list.classes = reader.names();
  list.names = reader.names();
  list.table = reader.number() != 0;
  list.ends.resize(list.table ? list.names.size() : list.classes.size());
  for (std::size_t& end : list.ends) end = reader.number();
  list.labels.resize(list.table ? list.ends.back() : 0);
  for (std::size_t& label : list.labels) label = reader.number();
  list.broken.resize(reader.number());
  for (std::size_t& i : list.broken) i = reader.number();
  return list;
}

std::vector<std::int64_t> ImageList::labels_of(std::size_t i) const {
  if (!table) return {label(i)};
  const auto at = [this](std::size_t place) {
    return labels.begin() + static_cast<std::ptrdiff_t>(place);
  };
  return {at(i == 0 ? 0 : ends[i - 1]), at(ends[i])};
}

std::int64_t ImageList::label(std::size_t i) const {
  if (!table) return std::upper_bound(ends.begin(), ends.end(), i) - ends.begin();
  const std::size_t begin = i == 0 ? 0 : ends[i - 1];
  return begin == ends[i] ? -1 : static_cast<std::int64_t>(labels[begin]);
}

std::string ImageList::path(const std::string& folder, std::size_t i) const {
  if (table) return (fs::path(folder) / names[i]).native();
  return (fs::path(folder) / classes[static_cast<std::size_t>(label(i))] / names[i]).native();
}

bool ImageList::is_broken(std::size_t i) const {
  return std::binary_search(broken.begin(), broken.end(), i);
}

ImageList list_images(const std::string& folder, const LabelTable* table, Peers& peers) {
  ImageList list;
  look_together(peers, folder, [&] {
    if (peers.rank() != 0) return;
    list = table == nullptr ? walk(folder) : walk(folder, *table);
  });
  if (peers.size() > 1) {
    std::vector<std::byte> bytes = peers.rank() == 0 ? pack_list(list) : std::vector<std::byte>();
    peers.broadcast(bytes);
    if (peers.rank() != 0) list = unpack_list(bytes);
  }
  const std::size_t count = list.names.size();
  std::vector<std::uint64_t> mine;
  look_together(peers, folder, [&] {
    const Range share = even_share({0, count}, peers.rank(), peers.size());
    for (std::size_t i = share.begin; i < share.end; ++i)
      mine.push_back(list.is_broken(i) ? 0 : fs::file_size(list.path(folder, i)));
  });
  const std::vector<std::uint64_t> sizes = gather_sizes(mine, count, peers);
  std::vector<std::uint64_t> told;  // the fingerprint, and sizes to compare
  const std::size_t compared = std::min(count, kCompared);
  if (peers.rank() == 0) {
    told.push_back(fingerprint_of(list, sizes));
    for (std::size_t k = 0; k < compared; ++k) told.push_back(sizes[k * count / compared]);
  }
  const auto seen = std::as_bytes(std::span(told));
  std::vector<std::byte> bytes(seen.begin(), seen.end());
  peers.broadcast(bytes);
  told.resize(1 + compared);
  std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(told)).begin());
  list.fingerprint = told[0];
  look_together(peers, folder, [&] {
    for (std::size_t k = 0; peers.size() > 1 && k < compared; ++k) {
      if (list.is_broken(k * count / compared)) continue;
      const std::string path = list.path(folder, k * count / compared);
      const std::uint64_t size = fs::file_size(path);
      if (size == told[1 + k]) continue;
      throw UsageError(path + " has " + std::to_string(size) + " bytes on " + host_name() +
                       ", but " + std::to_string(told[1 + k]) +
                       " for another rank: all ranks have to see the same folder");
    }
  });
  return list;
}

}  // namespace convoy::data
