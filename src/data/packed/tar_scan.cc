#include "data/packed/tar_scan.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "data/packed/names.h"
#include "data/packed/teller.h"
#include "data/tar/cursor.h"

namespace convoy::data {
namespace {

// Bytes of the members that hold names of classes, and labels.
constexpr std::uint64_t kMostNames = std::uint64_t{1} << 28;
constexpr std::uint64_t kMostLabels = std::uint64_t{1} << 24;

constexpr std::string_view kLabelExtension = "cls", kListExtension = "cls.json";

class Scanner {
 public:
  Scanner(const std::string& path, const TarScanOptions& options)
      : options_(options),
        file_(path),
        source_(file_),
        cursor_(source_, path, options.nested),
        below_(plain_path(options.below)) {
    scan_.compressed = source_.compressed();
    if (!options.hash) return;
    hash_.emplace();
    cursor_.outermost().tap([this](std::span<const std::byte> bytes) { hash_->update(bytes); });
  }

  TarScan run() {
    Teller teller(options_.tell, static_cast<double>(file_.size()));
    TarMember member;
    while (cursor_.next(member)) {
      take(member);
      teller.at(static_cast<double>(source_.consumed()));
    }
    end_sample();
    // What follows the end mark belongs to the file, too: the cursor has read it.
    if (options_.hash) scan_.tail_checksum = take_hash();
    scan_.bytes = source_.consumed();
    teller.finish();
    return std::move(scan_);
  }

 private:
  void take(const TarMember& member);
  void take_image(const TarMember& member, std::string name);
  void take_labels(const TarMember& member, bool list);
  std::vector<std::uint32_t> labels_in(const TarMember& member, bool list);
  std::string text_of(const TarMember& member, std::uint64_t most);
  void begin_sample(const SampleName& of);
  void end_sample();
  void count_auxiliary(const std::string& name);

  std::uint64_t take_hash() {
    const std::uint64_t value = hash_->digest();
    hash_.emplace();
    return value;
  }

  const TarScanOptions& options_;
  InputFile file_;
  ByteSource source_;
  TarCursor cursor_;
  std::string below_;
  TarScan scan_;
  std::optional<Xxh3> hash_;  // since the last image began or ended
  // Members of one stem that stand side by side are one sample.
  std::string stem_;
  std::vector<std::string> extensions_;
  std::size_t sample_begin_ = 0;
  std::optional<std::size_t> sample_list_;  // of scan_.lists
  bool sample_has_list_ = false;            // it was a list, not a single label
  std::vector<std::string> sample_labels_;  // names of the members that say them
};

// A member that comes again belongs to another sample, as the one beside it does.
void Scanner::begin_sample(const SampleName& of) {
  const bool again =
      std::find(extensions_.begin(), extensions_.end(), of.extension) != extensions_.end();
  if (of.stem == stem_ && !again) {
    extensions_.push_back(of.extension);
    return;
  }
  end_sample();
  stem_ = of.stem;
  extensions_ = {of.extension};
  sample_begin_ = scan_.images.size();
  sample_list_.reset();
  sample_labels_.clear();
}

// A sample has one image: others have more than its name before the extension.
void Scanner::end_sample() {
  if (scan_.images.size() == sample_begin_) {
    if (scan_.lone_labels == 0 && !sample_labels_.empty())
      scan_.first_lone_labels = sample_labels_.front();
    scan_.lone_labels += sample_labels_.size();
    scan_.others += sample_labels_.size();
  }
  const auto begin = scan_.images.begin() + static_cast<std::ptrdiff_t>(sample_begin_);
  const auto plain = [](const TarImage& image) { return is_plain_name(image.name); };
  if (!std::any_of(begin, scan_.images.end(), plain)) return;
  const auto rest = std::stable_partition(begin, scan_.images.end(), plain);
  for (auto image = rest; image != scan_.images.end(); ++image) count_auxiliary(image->name);
  scan_.images.erase(rest, scan_.images.end());
}

void Scanner::count_auxiliary(const std::string& name) {
  if (scan_.auxiliary == 0) scan_.first_auxiliary = name;
  ++scan_.auxiliary;
  ++scan_.others;
}

std::string Scanner::text_of(const TarMember& member, std::uint64_t most) {
  if (member.size > most) {
    throw UsageError(file_.path() + ": " + member.name + " has " + std::to_string(member.size) +
                     " bytes, too many for what it should hold");
  }
  std::string text(static_cast<std::size_t>(member.size), '\0');
  cursor_.bytes().read(std::as_writable_bytes(std::span(text)));
  return text;
}

void Scanner::take(const TarMember& member) {
  const bool link = member.kind == TarMember::Kind::link && options_.all;
  // tar makes hard links of files with two names.
  if (member.kind == TarMember::Kind::link && !options_.all && is_image_name(member.name)) {
    ++scan_.links;
    ++scan_.others;
  }
  if (member.kind != TarMember::Kind::file && !link) return;
  const std::string plain = plain_path(member.name);
  if (plain == kClassesMember) {
    scan_.classes =
        parse_class_names(text_of(member, kMostNames), file_.path() + ":" + member.name);
    return;
  }
  if (plain == kAboutMember) {
    scan_.about = text_of(member, kMostNames);
    return;
  }
  // An index has to know members by the names that they have.
  std::string name = options_.hash ? member.name : name_below(plain, below_);
  const SampleName sample = split_sample_name(name);
  const bool image = options_.all ? is_picture_name(name) : is_image_name(name);
  if (image && !options_.all && !is_plain_name(name)) {
    count_auxiliary(name);
  } else if (image) {
    begin_sample(sample);
    take_image(member, std::move(name));
  } else if (!link && (sample.extension == kLabelExtension || sample.extension == kListExtension)) {
    begin_sample(sample);
    take_labels(member, sample.extension == kListExtension);
  } else if (!link) {
    ++scan_.others;
  }
}

void Scanner::take_image(const TarMember& member, std::string name) {
  TarImage image;
  image.name = std::move(name);
  image.offset = member.offset;
  image.size = member.size;
  image.list = sample_list_;
  image.link = member.kind == TarMember::Kind::link;
  if (options_.hash) {
    image.gap_checksum = take_hash();
    cursor_.bytes().skip(member.size);
    image.checksum = take_hash();
  }
  scan_.images.push_back(std::move(image));
}

std::vector<std::uint32_t> Scanner::labels_in(const TarMember& member, bool list) {
  std::string text = text_of(member, kMostLabels);
  const auto wrong = [&](const std::string& why) {
    throw UsageError(file_.path() + ": " + member.name + " holds '" +
                     plain_path(text.substr(0, 40)) + "', which is " + why);
  };
  if (list) {
    std::optional<std::vector<std::uint32_t>> labels = parse_label_numbers(text);
    if (!labels) wrong("no list of labels: numbers from 0 on, each once, as [0, 2]");
    return std::move(*labels);
  }
  text.erase(0, text.find_first_not_of(" \t\r\n"));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  std::uint32_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc{} || end != text.data() + text.size()) {
    wrong(
        "no label: labels are numbers from 0 on, one for an image (lists stand in KEY.cls.json, as "
        "[0, 2])");
  }
  return {label};
}

void Scanner::take_labels(const TarMember& member, bool list) {
  if (sample_list_ && sample_has_list_ != list) {
    throw UsageError(file_.path() + ": " + member.name +
                     " is the second that says labels: of KEY.cls and KEY.cls.json a sample has "
                     "one");
  }
  scan_.lists.add(labels_in(member, list));
  sample_list_ = scan_.lists.size() - 1;
  sample_has_list_ = list;
  sample_labels_.push_back(member.name);
  for (std::size_t i = sample_begin_; i < scan_.images.size(); ++i)
    scan_.images[i].list = sample_list_;
}

}  // namespace

std::string name_below(const std::string& path, const std::string& folder) {
  if (folder.empty()) return path;
  if (!path.starts_with(folder + "/")) return "";
  return path.substr(folder.size() + 1);
}

void TarScan::check_labels_stand_beside_images(const std::string& tar) const {
  const auto has_labels = [](const TarImage& image) { return image.list.has_value(); };
  if (lone_labels == 0 || std::any_of(images.begin(), images.end(), has_labels)) return;
  throw UsageError(
      tar + ": there are labels without an image beside them, as " + first_lone_labels + " (" +
      std::to_string(lone_labels) +
      " in all), and no image has any. An image and its labels (KEY.jpg, KEY.cls) have "
      "to be in the same folder, one directly after the other: tar --sort=name makes "
      "it so");
}

std::size_t TarScan::classes_by_first_folders() const {
  std::vector<std::string> paths;
  paths.reserve(images.size());
  for (const TarImage& image : images) {
    if (image.list) return 0;
    paths.push_back(plain_path(image.name));
  }
  return data::classes_by_first_folders(paths);
}

std::optional<std::span<const std::uint32_t>> TarScan::labels_of(const TarImage& image) const {
  if (!image.list) return {};
  return lists[*image.list];
}

TarScan scan_tar(const std::string& path, const TarScanOptions& options) {
  return Scanner(path, options).run();
}

}  // namespace convoy::data
