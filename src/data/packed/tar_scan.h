// Which images a tar holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/data/packed.h"
#include "data/packed/labels.h"

namespace convoy::data {

struct TarImage {
  std::string name;
  std::uint64_t offset = 0, size = 0;
  std::optional<std::size_t> list;  // which of the lists is its own: see TarScan::labels_of()
  bool link = false;                // there is a name and nothing else
  // With TarScanOptions::hash: of its bytes, and of those between the image before it and this one.
  std::uint64_t checksum = 0, gap_checksum = 0;
};

struct TarScanOptions {
  std::string below;    // only what lies below this folder
  bool nested = false;  // goes into tars in the tar
  // Takes pictures of all kinds for images, and links to them; and those with a second extension
  // ("1.left.png") unless there is the sample's own ("1.png") beside them.
  bool all = false;
  bool hash = false;  // of a plain tar that is not nested
  Tell tell;          // in stored bytes
};

struct TarScan {
  bool compressed = false;
  std::vector<TarImage> images;      // in the order of the tar
  LabelLists lists;                  // of .cls and .cls.json members, each ascending
  std::vector<std::string> classes;  // if a member says them (pack() writes one)
  std::string about;                 // likewise
  std::uint64_t others = 0;          // files that are none of these
  std::uint64_t auxiliary = 0;       // of them: images with a second extension
  std::string first_auxiliary;       // the name of the first of them
  std::uint64_t lone_labels = 0;     // of them: labels without an image beside them
  std::string first_lone_labels;     // the name of the first of them
  std::uint64_t links = 0;  // of the others: links with an image's name, unless all are taken
  std::uint64_t bytes = 0;  // of the tar
  std::uint64_t tail_checksum = 0;  // with hash: of what follows the last image

  // Throws UsageError where the tar has labels, and no image has any: `tar` is for the message.
  void check_labels_stand_beside_images(const std::string& tar) const;

  // classes_by_first_folders() of the images, where folders are their classes; else 0.
  std::size_t classes_by_first_folders() const;

  // What the .cls or .cls.json member beside an image says.
  std::optional<std::span<const std::uint32_t>> labels_of(const TarImage& image) const;
};

// Walks over a tar once; without `hash`, only over its headers where the file is not compressed.
// Throws UsageError naming tar and member.
TarScan scan_tar(const std::string& path, const TarScanOptions& options);

// A plain path without the folder in front; empty if it is not in that folder.
std::string name_below(const std::string& path, const std::string& folder);

}  // namespace convoy::data
