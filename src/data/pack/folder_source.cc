#include <algorithm>
#include <filesystem>

#include "convoy/base/error.h"
#include "data/pack/source.h"
#include "data/packed/labels.h"
#include "data/packed/names.h"
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

class FolderSource final : public PackSource {
 public:
  explicit FolderSource(const PackOptions& options) : folder_(options.sources.front()) {
    if (!options.below.empty()) {
      throw UsageError("--below is for a tar; of a folder, name the one below: " +
                       (fs::path(folder_) / options.below).string());
    }
    collect();
    if (images_.empty()) {
      throw UsageError(folder_ + ": no picture in this folder");
    }
    std::sort(images_.begin(), images_.end(), before);
    LabelRules rules;
    rules.source = folder_;
    if (!options.classes.empty()) rules.given = read_class_names(options.classes);
    if (!options.labels.empty()) read_label_list(options.labels, rules);
    std::vector<Unlabeled> labels;
    for (const SourceImage& image : images_) {
      const std::size_t slash = image.name.find('/');
      labels.push_back({image.name, slash == std::string::npos
                                        ? std::string_view()
                                        : std::string_view(image.name).substr(0, slash)});
    }
    classes_ = assign_labels(rules, labels);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      images_[i].label = static_cast<std::uint32_t>(labels[i].label);
    }
  }

  bool any_order() const override { return true; }
  bool pixels() const override { return false; }

  Record read(std::size_t i, std::vector<std::byte>& scratch) override {
    const InputFile file((fs::path(folder_) / images_[i].name).string());
    scratch.resize(static_cast<std::size_t>(file.size()));
    file.read(0, scratch);
    return {scratch, Encoding::jpeg, {}, images_[i].label};
  }

 private:
  void collect() {
    using Options = fs::directory_options;
    for (fs::recursive_directory_iterator at(folder_, Options::follow_directory_symlink), end;
         at != end; ++at) {
      const std::string name = at->path().filename().string();
      if (name.starts_with('.')) {
        if (at->is_directory()) at.disable_recursion_pending();
      } else if (!at->is_directory()) {
        is_picture_name(name) ? add(*at) : void(++others_);
      }
    }
  }

  void add(const fs::directory_entry& entry) {
    SourceImage image;
    image.name = entry.path().lexically_relative(folder_).generic_string();
    std::error_code error;
    if (entry.is_regular_file(error)) {
      image.size = entry.file_size();
    } else {
      image.problem = error ? error.message() : "not a file";  // a link to nothing, a pipe
    }
    images_.push_back(std::move(image));
  }

  std::string folder_;
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
