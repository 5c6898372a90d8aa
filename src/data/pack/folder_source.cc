#include <algorithm>
#include <filesystem>

#include "convoy/base/error.h"
#include "data/pack/source.h"
#include "data/packed/labels.h"
#include "data/packed/names.h"
#include "data/readers/image_walk.h"
#include "data/readers/input_file.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

// Folders of one level in alphabetical order, whatever characters their names hold.
bool before(const SourceImage& a, const SourceImage& b) {
  return std::lexicographical_compare(
      a.name.begin(), a.name.end(), b.name.begin(), b.name.end(), [](char x, char y) {
        const auto rank = [](char c) { return c == '/' ? 0 : static_cast<unsigned char>(c) + 1; };
        return rank(x) < rank(y);
      });
}

// As open_image_folder() has the images of a table.
bool before_in_paths(const SourceImage& a, const SourceImage& b) { return a.name < b.name; }

class FolderSource final : public PackSource {
 public:
  explicit FolderSource(const PackOptions& options) : folder_(options.sources.front()) {
    if (!options.below.empty()) {
      throw UsageError("--below is for a tar; of a folder, name the one below: " +
                       (fs::path(folder_) / options.below).string());
    }
    const LabelRules rules = read_label_rules(options);
    collect(folder_, "", rules);
    if (images_.empty()) {
      throw UsageError(folder_ + ": no picture in this folder");
    }
    std::sort(images_.begin(), images_.end(), rules.table ? before_in_paths : before);
    std::vector<Unlabeled> unlabeled;
    for (const SourceImage& image : images_) {
      const std::size_t slash = image.name.find('/');
      unlabeled.push_back({image.name,
                           slash == std::string::npos
                               ? std::string_view()
                               : std::string_view(image.name).substr(0, slash),
                           {}});
    }
    Labeled labeled = assign_labels(rules, unlabeled);
    classes_ = std::move(labeled.classes);
    labels_ = std::move(labeled.labels);
    unused_lines_ = labeled.unused_lines;
  }

  bool any_order() const override { return true; }
  bool pixels() const override { return false; }

  Record read(std::size_t i, std::vector<std::byte>& scratch) override {
    const std::unique_ptr<InputFile> file = open(images_[i]);
    scratch.resize(static_cast<std::size_t>(file->size()));
    file->read(0, scratch);
    return {scratch, Encoding::jpeg, {}, kNoLabel};
  }

 private:
  // It may be gone since the walk, or not ours to read.
  std::unique_ptr<InputFile> open(const SourceImage& image) const {
    try {
      auto file = std::make_unique<InputFile>((fs::path(folder_) / image.name).string());
      if (file->size() > kLargestImage) throw UnreadableImage("it has more than 1 GiB");
      return file;
    } catch (const UnreadableImage&) {
      throw;
    } catch (const UsageError& error) {
      throw UnreadableImage(error.what());
    }
  }

  // Links to folders are followed, but for those to a folder that they are in, as
  // open_image_folder() does.
  void collect(const fs::path& folder, const std::string& prefix, const LabelRules& rules) {
    const FolderId id = folder_id(folder);
    if (std::find(around_.begin(), around_.end(), id) != around_.end()) return;
    around_.push_back(id);
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (is_hidden(entry.path())) continue;
      const std::string name = entry.path().filename().string();
      std::error_code error;  // of a link to itself
      if (entry.is_directory(error)) {
        collect(entry.path(), prefix + name + "/", rules);
      } else if (!is_picture_name(name) || !add(entry, prefix + name, rules)) {
        ++others_;
      }
    }
    around_.pop_back();
  }

  // A table need not speak of pictures that open_image_folder() passes over: false.
  bool add(const fs::directory_entry& entry, std::string name, const LabelRules& rules) {
    SourceImage image;
    image.name = std::move(name);
    if (rules.table && !is_image_name(image.name) && rules.table->find(image.name) == nullptr)
      return false;
    std::error_code error;
    if (entry.is_regular_file(error)) {
      image.size = entry.file_size();
      image.time = time_of_change(entry.path().string());
    } else {
      image.problem = error ? error.message() : "not a file";  // a link to nothing, a pipe
    }
    images_.push_back(std::move(image));
    return true;
  }

  std::string folder_;
  std::vector<FolderId> around_;  // the folders that collect() is in
};

}  // namespace

std::unique_ptr<PackSource> open_folder_source(const PackOptions& options) {
  try {
    return std::make_unique<FolderSource>(options);
  } catch (const fs::filesystem_error& error) {
    const std::string path =
        error.path1().empty() ? options.sources.front() : error.path1().native();
    throw UsageError(path + ": " + error.code().message());
  }
}

}  // namespace convoy::data
