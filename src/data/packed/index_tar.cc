#include <algorithm>

#include "base/own_files.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/data/packed.h"
#include "data/packed/index.h"
#include "data/packed/names.h"
#include "data/packed/tar_scan.h"
#include "data/readers/byte_source.h"

namespace convoy::data {
namespace {

void refuse_compressed(const std::string& tar) {
  const InputFile file(tar);
  if (!ByteSource(file).compressed()) return;
  throw UsageError(tar +
                   ": compressed with gzip; only a plain tar can be indexed. Unpack it with "
                   "gunzip, or let convoy pack read it");
}

void refuse_duplicates(const std::string& tar, const std::vector<TarImage>& images) {
  std::vector<std::string_view> names;
  names.reserve(images.size());
  for (const TarImage& image : images) names.emplace_back(image.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return;
  throw UsageError(tar + ": there are two members named " + std::string(*twice));
}

}  // namespace

IndexTarResult index_tar(const std::string& tar, const IndexTarOptions& options) {
  LabelRules rules;
  rules.source = tar;
  if (!options.classes.empty()) rules.given = read_class_names(options.classes);
  check_own_file("FILE.tar", index_path(tar), kIndexFile);
  refuse_compressed(tar);
  TarScanOptions scanning;
  scanning.hash = true;
  scanning.tell = options.tell;
  const TarScan scan = scan_tar(tar, scanning);
  if (scan.images.empty()) {
    std::string why = ": no .jpg, .jpeg or .png file in it: nothing to index";
    if (scan.auxiliary > 0) {
      why = ": its images have a second extension, as " + scan.first_auxiliary +
            ", and would belong to other samples; convoy pack takes them and gives them names of "
            "their own";
    }
    throw UsageError(tar + why);
  }
  refuse_duplicates(tar, scan.images);
  scan.check_labels_stand_beside_images(tar);
  rules.recorded = scan.classes;
  std::vector<Unlabeled> unlabeled;
  unlabeled.reserve(scan.images.size());
  for (const TarImage& image : scan.images) {
    unlabeled.push_back({image.name, folder_of(image.name), scan.labels_of(image)});
  }
  const Labeled labeled = assign_labels(rules, unlabeled);
  IndexBuilder builder;
  for (std::size_t i = 0; i < scan.images.size(); ++i) {
    const TarImage& image = scan.images[i];
    builder.add({image.name, image.offset, image.size, image.checksum, image.gap_checksum},
                labeled.labels[i]);
  }
  AtomicFile file(index_path(tar));
  file.write(builder.finish({scan.bytes, scan.tail_checksum, labeled.classes, scan.about}));
  file.commit();
  return {index_path(tar),
          builder.size(),
          labeled.classes.size(),
          builder.labels(),
          builder.label_lists(),
          scan.others,
          scan.auxiliary,
          scan.lone_labels,
          scan.links,
          scan.classes_by_first_folders()};
}

}  // namespace convoy::data
