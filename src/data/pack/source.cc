#include "data/pack/source.h"

#include <filesystem>

#include "convoy/base/error.h"
#include "data/packed/names.h"
#include "data/readers/byte_source.h"
#include "data/tar/format.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCifarImage = 3 * 32 * 32;

enum class Kind { tar, idx_images, idx_labels, cifar10, cifar100, unknown };

bool is_tar(std::span<const std::byte> head) {
  if (head.size() < kTarBlock) return false;
  const auto block = head.first<kTarBlock>();
  // An empty tar consists of nothing but zeros.
  if (is_zero_block(block)) return true;
  try {
    parse_tar_header(block);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

Kind kind_of(const std::string& path) {
  const InputFile file(path);
  ByteSource source(file);
  std::vector<std::byte> head(kTarBlock);
  head.resize(source.read(head));
  if (head.size() >= 4 && head[0] == std::byte{0} && head[1] == std::byte{0} &&
      head[2] == std::byte{8}) {
    const auto dimensions = std::to_integer<int>(head[3]);
    if (dimensions == 1) return Kind::idx_labels;
    if (dimensions == 3 || dimensions == 4) return Kind::idx_images;
  }
  if (is_tar(head)) return Kind::tar;
  if (fs::path(path).extension() == ".bin" && file.size() > 0) {
    if (file.size() % (1 + kCifarImage) == 0) return Kind::cifar10;
    if (file.size() % (2 + kCifarImage) == 0) return Kind::cifar100;
  }
  return Kind::unknown;
}

// "train-images-idx3-ubyte.gz" -> "train-labels-idx1-ubyte.gz", as MNIST's files are called.
std::string labels_beside(const std::string& images) {
  const fs::path path(images);
  std::string name = path.filename().string();
  const auto replace = [&name](const std::string& from, const std::string& to) {
    const std::size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  };
  replace("images", "labels");
  replace("idx3", "idx1");
  replace("idx4", "idx1");
  const fs::path labels = path.parent_path() / name;
  if (name == path.filename().string() || !fs::exists(labels)) {
    throw UsageError(images +
                     " holds images in IDX; say with --labels which file holds their labels");
  }
  return labels.string();
}

// The names of CIFAR's classes stand in a file beside the images.
std::string cifar_names(CifarKind kind, const std::string& file) {
  const fs::path names = fs::path(file).parent_path() /
                         (kind == CifarKind::cifar10 ? "batches.meta.txt" : "fine_label_names.txt");
  return fs::exists(names) ? names.string() : "";
}

}  // namespace

std::int64_t time_of_change(const std::string& path) {
  return static_cast<std::int64_t>(fs::last_write_time(path).time_since_epoch().count());
}

LabelRules read_label_rules(const PackOptions& options) {
  LabelRules rules;
  rules.source = options.sources.front();
  if (!options.label_table.empty()) {
    if (!options.labels.empty())
      throw UsageError("--labels and --label-table both say the labels: give one of them");
    rules.table_file = options.label_table;
    rules.table = read_label_table({options.label_table, options.classes});
    return rules;
  }
  if (!options.classes.empty()) rules.given = read_class_names(options.classes);
  if (!options.labels.empty()) read_label_list(options.labels, rules);
  return rules;
}

std::unique_ptr<PackSource> open_source(const PackOptions& options) {
  if (options.sources.empty()) throw UsageError("nothing to pack: name a source");
  const std::string& first = options.sources.front();
  std::error_code error;
  if (!fs::exists(first, error)) throw UsageError(first + ": there is no such file or folder");
  const bool folder = fs::is_directory(first, error);
  const Kind kind = folder ? Kind::unknown : kind_of(first);
  if (options.sources.size() > 1 && kind != Kind::cifar10 && kind != Kind::cifar100) {
    throw UsageError("several sources can be files of CIFAR's binary version; " + first +
                     " is none. Pack the others by themselves: several packed files can be read "
                     "as one data set");
  }
  if (folder) return open_folder_source(options);
  switch (kind) {
    case Kind::tar:
      return open_tar_source(options);
    case Kind::idx_images: {
      const std::string labels = options.labels.empty() ? labels_beside(first) : options.labels;
      return open_dataset_source(open_idx(first, labels), options);
    }
    case Kind::idx_labels:
      throw UsageError(first + " holds labels in IDX; name the file of images");
    case Kind::cifar10:
    case Kind::cifar100: {
      if (!options.labels.empty()) {
        throw UsageError("--labels: the labels of " + first + " stand in the file itself");
      }
      const CifarKind which = kind == Kind::cifar10 ? CifarKind::cifar10 : CifarKind::cifar100;
      return open_dataset_source(open_cifar(which, options.sources, cifar_names(which, first)),
                                 options);
    }
    case Kind::unknown:
      break;
  }
  throw UsageError(first +
                   " is none of what can be packed: a folder of images, a tar (perhaps gzip-"
                   "compressed), an IDX file of images, a .bin file of CIFAR");
}

}  // namespace convoy::data
