// https://www.cs.toronto.edu/~kriz/cifar.html, "binary version".
#include "data/readers/cifar.h"

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::data {
namespace {

constexpr Shape kShape{3, 32, 32};
constexpr unsigned kCoarseClasses = 20;

unsigned class_count(CifarKind kind) { return kind == CifarKind::cifar10 ? 10 : 100; }

// "CIFAR-10"
std::string kind_name(CifarKind kind) { return "CIFAR-" + std::to_string(class_count(kind)); }

std::vector<std::string> read_names(const std::string& path, CifarKind kind) {
  const std::string text = read_text_file(path, std::size_t{1} << 20);
  std::vector<std::string> names;
  std::string line;
  for (const char c : text + "\n") {
    if (c != '\n') {
      if (c != '\r') line += c;
      continue;
    }
    if (!line.empty()) names.push_back(line);
    line.clear();
  }
  if (names.size() != class_count(kind)) {
    throw UsageError(path + ": " + std::to_string(names.size()) + " names; " + kind_name(kind) +
                     " has " + std::to_string(class_count(kind)) + " classes, one a line");
  }
  return names;
}

}  // namespace

void append_cifar(CifarKind kind, std::span<const std::byte> file, const std::string& name,
                  Examples& examples) {
  const std::size_t label_bytes = kind == CifarKind::cifar10 ? 1 : 2;
  const std::size_t each = label_bytes + kShape.elements();
  if (file.empty() || file.size() % each != 0) {
    throw UsageError(name + ": " + std::to_string(file.size()) + " bytes; a " + kind_name(kind) +
                     " file has a multiple of " + std::to_string(each) +
                     ": is it truncated, or of another version?");
  }
  const std::size_t count = file.size() / each;
  for (std::size_t i = 0; i < count; ++i) {
    const auto record = file.subspan(i * each, each);
    const auto label = std::to_integer<std::uint8_t>(record[label_bytes - 1]);
    const auto coarse = std::to_integer<unsigned>(record[0]);
    if (label >= class_count(kind) || (label_bytes == 2 && coarse >= kCoarseClasses)) {
      throw UsageError(name + ": image " + std::to_string(i) + " has the label " +
                       (label_bytes == 2 ? std::to_string(coarse) + ", " : "") +
                       std::to_string(label) + ", which " + kind_name(kind) + " does not have");
    }
    examples.labels.push_back(label);
    const auto pixels = record.subspan(label_bytes);
    examples.bytes.insert(examples.bytes.end(), pixels.begin(), pixels.end());
  }
  examples.shape = kShape;
  examples.parts.push_back({name, count});
}

std::shared_ptr<Dataset> open_cifar(CifarKind kind, const std::vector<std::string>& files,
                                    const std::string& class_names) {
  if (files.empty()) throw UsageError(kind_name(kind) + ": no files are given");
  Examples examples;
  examples.classes =
      class_names.empty() ? digit_names(class_count(kind)) : read_names(class_names, kind);
  for (const std::string& file : files) append_cifar(kind, read_file(file), file, examples);
  return make_memory_dataset(std::move(examples));
}

}  // namespace convoy::data
