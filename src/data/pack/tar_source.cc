#include "convoy/base/error.h"
#include "data/pack/source.h"
#include "data/packed/names.h"
#include "data/packed/tar_scan.h"
#include "data/tar/cursor.h"

namespace convoy::data {
namespace {

// Walks over the tar twice: for the names, then for the bytes. A plain one is not read in the first
// walk, and read at any place in the second.
class TarSource final : public PackSource {
 public:
  explicit TarSource(const PackOptions& options)
      : path_(options.sources.front()), below_(plain_path(options.below)), file_(path_) {
    version_ = static_cast<std::uint64_t>(time_of_change(path_));
    TarScanOptions scanning;
    scanning.below = below_;
    scanning.nested = scanning.all = true;
    TarScan scan = scan_tar(path_, scanning);
    compressed_ = scan.compressed;
    others_ = scan.others;
    if (scan.images.empty()) {
      throw UsageError(path_ + ": no picture in this tar" +
                       (below_.empty() ? "" : " below " + below_));
    }
    LabelRules rules = read_label_rules(options);
    if (rules.list.empty() && !rules.table) {
      scan.check_labels_stand_beside_images(path_);
      classes_by_first_folders_ = scan.classes_by_first_folders();
    }
    rules.recorded = std::move(scan.classes);
    std::vector<Unlabeled> unlabeled;
    for (const TarImage& image : scan.images)
      unlabeled.push_back({image.name, folder_of(image.name), scan.labels_of(image)});
    Labeled labeled = assign_labels(rules, unlabeled);
    classes_ = std::move(labeled.classes);
    labels_ = std::move(labeled.labels);
    unused_lines_ = labeled.unused_lines;
    for (const TarImage& image : scan.images) {
      offsets_.push_back(image.offset);
      images_.push_back({image.name, image.size,
                         image.link ? "a link in the tar: it has no bytes of its own" : ""});
    }
  }

  bool any_order() const override { return !compressed_; }
  bool pixels() const override { return false; }

  Record read(std::size_t i, std::vector<std::byte>& scratch) override {
    scratch.resize(static_cast<std::size_t>(images_[i].size));
    if (compressed_) {
      go_to(i);
      cursor_->bytes().read(scratch);
    } else {
      file_.read(offsets_[i], scratch);
    }
    return {scratch, Encoding::jpeg, {}, kNoLabel};
  }

 private:
  void go_to(std::size_t i) {
    if (cursor_ == nullptr) {
      source_ = std::make_unique<ByteSource>(file_);
      cursor_ = std::make_unique<TarCursor>(*source_, path_, true);
    }
    TarMember member;
    do {
      if (!cursor_->next(member)) {
        throw Failure(path_ + " has changed while it was read: " + images_[i].name + " is missing");
      }
    } while (member.offset < offsets_[i]);
    if (member.offset != offsets_[i] || member.size != images_[i].size) {
      throw Failure(path_ + " has changed while it was read: " + images_[i].name + " has moved");
    }
  }

  std::string path_;
  std::string below_;
  InputFile file_;
  bool compressed_ = false;
  std::vector<std::uint64_t> offsets_;
  std::unique_ptr<ByteSource> source_;  // of a compressed tar
  std::unique_ptr<TarCursor> cursor_;
};

}  // namespace

std::unique_ptr<PackSource> open_tar_source(const PackOptions& options) {
  return std::make_unique<TarSource>(options);
}

}  // namespace convoy::data
