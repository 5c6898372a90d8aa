// Where pack() gets images from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/data/dataset.h"
#include "convoy/data/pack.h"
#include "data/packed/labels.h"

namespace convoy::data {

constexpr std::uint64_t kLargestImage = std::uint64_t{1} << 30;  // in bytes

// One image of a source. `name` is its path in the source, without what all have in front.
struct SourceImage {
  std::string name;
  std::uint64_t size = 0;  // in bytes, as stored
  // Why there is nothing to read: a link in a tar. Empty for all others.
  std::string problem;
  std::int64_t time = 0;  // of the file's last change, where it has a file of its own
};

// An image that can't be read, though the others of the source may well be.
class UnreadableImage : public UsageError {
 public:
  using UsageError::UsageError;
};

class PackSource {
 public:
  virtual ~PackSource() = default;

  const std::vector<std::string>& classes() const { return classes_; }
  const std::vector<SourceImage>& images() const { return images_; }
  // Give the labels of image i, ascending; and say whether there are images with none or several.
  std::span<const std::uint32_t> labels(std::size_t i) const { return labels_[i]; }
  bool label_lists() const { return !labels_.one_each(); }
  // What else tells these images from others of the same names and sizes: the time of their file's
  // last change, or a hash of what is in it.
  std::uint64_t version() const { return version_; }
  // How many files there are that are no pictures by their names.
  std::uint64_t others() const { return others_; }
  // How many lines of a list of labels name no image.
  std::uint64_t unused_lines() const { return unused_lines_; }
  // IndexTarResult::classes_by_first_folders, of a tar.
  std::uint64_t classes_by_first_folders() const { return classes_by_first_folders_; }
  // Whether images may be read in any order, by several threads at a time. If not: in ascending
  // order, by one at a time.
  virtual bool any_order() const = 0;
  // Whether images come as pixels; else as files.
  virtual bool pixels() const = 0;
  // The image's bytes, in `scratch` or the source's own memory; of a file the encoding is not
  // looked at yet, and its labels are those above. Throws UnreadableImage saying what is wrong with
  // this one, and Failure or UsageError naming the file when the source can't be read.
  virtual Record read(std::size_t i, std::vector<std::byte>& scratch) = 0;

 protected:
  std::vector<std::string> classes_;
  std::vector<SourceImage> images_;
  LabelLists labels_;  // of each image
  std::uint64_t version_ = 0;
  std::uint64_t others_ = 0;
  std::uint64_t unused_lines_ = 0;
  std::uint64_t classes_by_first_folders_ = 0;
};

// When a file was changed last, in a unit of the system's. Throws as std::filesystem does.
std::int64_t time_of_change(const std::string& path);

// Finds out what the sources are. Throws UsageError naming what is wrong with them.
std::unique_ptr<PackSource> open_source(const PackOptions& options);

// What the user says of the labels of a folder's or a tar's images.
LabelRules read_label_rules(const PackOptions& options);

// The kinds.
std::unique_ptr<PackSource> open_folder_source(const PackOptions& options);
std::unique_ptr<PackSource> open_tar_source(const PackOptions& options);
std::unique_ptr<PackSource> open_dataset_source(std::shared_ptr<const Dataset> dataset,
                                                const PackOptions& options);

}  // namespace convoy::data
