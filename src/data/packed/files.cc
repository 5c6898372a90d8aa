#include <algorithm>
#include <filesystem>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/names.h"
#include "convoy/base/system.h"
#include "convoy/data/packed.h"
#include "data/decode/decode.h"
#include "data/packed/open.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

// How far ahead of a load the system is told to read.
constexpr std::uint64_t kAhead = std::uint64_t{16} << 20;

std::vector<std::string> expand(const std::vector<std::string>& files) {
  std::vector<std::string> all;
  for (const std::string& file : files) {
    std::error_code error;
    if (!fs::is_directory(file, error)) {
      all.push_back(file);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(file, error)) {
      if (entry.path().extension() == ".tar") inside.push_back(entry.path().native());
    }
    if (inside.empty()) throw UsageError(file + ": no .tar file in this folder");
    std::sort(inside.begin(), inside.end());
    all.insert(all.end(), inside.begin(), inside.end());
  }
  if (all.empty()) throw UsageError("packed data: no files are given");
  return all;
}

}  // namespace

struct PackedFiles::File : OpenPacked {
  using OpenPacked::OpenPacked;

  void read_record(std::size_t i, std::span<std::byte> to) const {
    const IndexEntry entry = index[i];
    tar.read(entry.offset, to);
    if (xxh3(to) == entry.checksum) return;
    throw UsageError(tar.path() + ": record " + printable(entry.key) + " (" +
                     std::to_string(entry.length) + " bytes at " + std::to_string(entry.offset) +
                     ") is damaged, or the index is of another tar: convoy verify tells");
  }
};

PackedFiles::PackedFiles(const std::vector<std::string>& files) {
  const std::vector<std::string> paths = expand(files);
  // Each stays open, and an index is open while it is read.
  if (const std::uint64_t room = make_room_for_files(paths.size() + 1); room <= paths.size()) {
    throw UsageError("packed data of " + std::to_string(paths.size()) + " files, from " +
                     paths.front() + " on: this process can open " + std::to_string(room) +
                     " more files; raise its limit on " + host_name() +
                     " (ulimit -n), or pack into fewer and larger files");
  }
  std::size_t end = 0;
  for (const std::string& path : paths) {
    files_.push_back(std::make_unique<File>(path));
    const File& file = *files_.back();
    file.check_same_tar();
    const auto& names = file.index.header().classes;
    if (names != classes()) {
      throw UsageError(path + ": its " + std::to_string(names.size()) + " classes are not the " +
                       std::to_string(classes().size()) + " of " + files_.front()->tar.path() +
                       " in the same order");
    }
    ends_.push_back(end += file.index.size());
    label_lists_ = label_lists_ || file.index.label_lists();
  }
  if (end == 0) throw UsageError(files_.front()->tar.path() + ": it holds no record");
}

PackedFiles::~PackedFiles() = default;

PackedFiles::Place PackedFiles::find(std::size_t i) const {
  const auto file = std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin();
  const auto number = static_cast<std::size_t>(file);
  return {files_[number].get(), number == 0 ? i : i - ends_[number - 1]};
}

std::size_t PackedFiles::size() const { return ends_.back(); }

const std::vector<std::string>& PackedFiles::classes() const {
  return files_.front()->index.header().classes;
}

Record PackedFiles::read(std::size_t i, std::vector<std::byte>& scratch) const {
  const Place place = find(i);
  const std::uint64_t size = place.file->index[place.record].length;
  if (size > kLargestRecord) {
    throw UsageError(key(i) + " has " + std::to_string(size) +
                     " bytes; a picture can have 1 GiB at most");
  }
  scratch.resize(static_cast<std::size_t>(size));
  place.file->read_record(place.record, scratch);
  return record(i, scratch);
}

Record PackedFiles::record(std::size_t i, std::span<const std::byte> bytes) const {
  return {bytes, is_png(bytes) ? Encoding::png : Encoding::jpeg, {}, label(i)};
}

std::string PackedFiles::key(std::size_t i) const {
  const Place place = find(i);
  return place.file->tar.path() + ":" + printable(place.file->index[place.record].key);
}

std::int64_t PackedFiles::label(std::size_t i) const {
  const Place place = find(i);
  return place.file->index[place.record].label;
}

std::vector<std::int64_t> PackedFiles::labels(std::size_t i) const {
  const Place place = find(i);
  return place.file->index.labels(place.record);
}

std::uint64_t PackedFiles::fingerprint() const {
  std::vector<std::uint64_t> all;
  for (const auto& file : files_) all.push_back(file->index.fingerprint());
  return xxh3(std::as_bytes(std::span(all)));
}

std::uint64_t PackedFiles::length(std::size_t i) const {
  const Place place = find(i);
  return place.file->index[place.record].length;
}

void PackedFiles::load(Range records, std::span<std::byte> to) const {
  if (const std::uint64_t wanted = bytes(records); to.size() != wanted) {
    throw UsageError("loading " + std::to_string(records.size()) + " records of " +
                     std::to_string(wanted) + " bytes into memory of " + std::to_string(to.size()));
  }
  const File* announced_of = nullptr;
  std::uint64_t announced = 0;
  for (std::size_t i = records.begin; i < records.end; ++i) {
    const Place place = find(i);
    const IndexEntry entry = place.file->index[place.record];
    if (place.file != announced_of || entry.offset + kAhead / 2 > announced) {
      announced_of = place.file;
      announced = entry.offset + kAhead;
      place.file->tar.announce(entry.offset, kAhead);
    }
    const auto length = static_cast<std::size_t>(entry.length);
    place.file->read_record(place.record, to.first(length));
    to = to.subspan(length);
  }
}

PackedSummary inspect_packed(const std::string& path) {
  const OpenPacked file(path);
  file.check_same_tar();
  const Index& index = file.index;
  PackedSummary summary;
  summary.file = path;
  summary.tar_bytes = file.tar.size();
  summary.records = index.size();
  summary.classes = index.header().classes;
  summary.class_records.resize(summary.classes.size());
  summary.label_lists = index.label_lists();
  summary.about = index.header().about;
  std::vector<std::uint64_t> lengths(index.size());
  for (std::size_t i = 0; i < index.size(); ++i) {
    const IndexEntry entry = index[i];
    lengths[i] = entry.length;
    summary.record_bytes += entry.length;
    const std::vector<std::int64_t> labels = index.labels(i);
    for (const std::int64_t label : labels)
      ++summary.class_records[static_cast<std::size_t>(label)];
    summary.labels += labels.size();
    summary.unlabeled += labels.empty() ? 1 : 0;
    summary.most_labels = std::max<std::uint64_t>(summary.most_labels, labels.size());
  }
  if (lengths.empty()) return summary;
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  summary.median = *middle;
  summary.smallest = *std::min_element(lengths.begin(), lengths.end());
  summary.largest = *std::max_element(lengths.begin(), lengths.end());
  return summary;
}

void list_packed(const std::string& path, const std::function<void(const PackedRecord&)>& each) {
  const OpenPacked file(path);
  for (std::size_t i = 0; i < file.index.size(); ++i) {
    const IndexEntry entry = file.index[i];
    each({std::string(entry.key), entry.offset, entry.length, entry.label, file.index.labels(i),
          entry.checksum});
  }
}

}  // namespace convoy::data
