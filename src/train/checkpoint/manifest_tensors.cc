#include "train/checkpoint/manifest_tensors.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "convoy/train/safetensors.h"

namespace convoy::train {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMostDimensions = 64;  // as in safetensors files

constexpr std::array kGroups = {"model", "optimizer", "rank"};  // as TensorGroup

std::vector<std::int64_t> extents(const Members& members, const std::string& key) {
  std::vector<std::int64_t> all;
  if (members.list(key).size() > kMostDimensions)
    throw members.bad(members.path(key), "of at most 64 dimensions");
  for (const Json& value : members.list(key)) {
    const std::uint64_t extent = members.natural_of(value, members.path(key) + "[]");
    if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw members.bad(members.path(key), "sizes below 2^63");
    }
    all.push_back(static_cast<std::int64_t>(extent));
  }
  return all;
}

TensorGroup group_from(const Members& members) {
  const std::string text = members.text("group");
  for (std::size_t i = 0; i < kGroups.size(); ++i) {
    if (text == kGroups[i]) return static_cast<TensorGroup>(i);
  }
  throw members.bad(members.path("group"), "model, optimizer or rank");
}

StoredSlice slice_from(const Members& members, const StoredTensor& tensor,
                       const std::map<std::string, FileEntry>& files) {
  StoredSlice stored;
  stored.file = members.text("file");
  stored.begin = extents(members, "begin");
  stored.size = extents(members, "size");
  stored.offset = members.natural("offset");
  if (!members.at("xxh3").is_null()) stored.xxh3 = members.hex("xxh3");
  tensor.slice(stored).check();
  const auto file = files.find(stored.file);
  if (file == files.end()) throw members.bad(members.path("file"), "one of the manifest's files");
  std::uint64_t end = 0;
  const std::uint64_t most = stored.xxh3 ? file->second.bytes : file->second.hashed;
  if (__builtin_add_overflow(stored.offset, tensor.bytes(stored), &end) || end > most) {
    throw members.bad(members.path("offset"), "so that the slice ends in its file");
  }
  return stored;
}

StoredTensor tensor_from(const Members& members, const std::map<std::string, FileEntry>& files) {
  StoredTensor tensor;
  tensor.group = group_from(members);
  tensor.name = members.text("name");
  tensor.type = members.text("type");
  tensor.shape = extents(members, "shape");
  constexpr std::int64_t kMostElements = std::int64_t{1} << 56;  // times their size fits
  const Slice whole = whole_of(tensor.name, tensor.shape);
  whole.check();
  size_of_type(tensor.type);
  if (whole.elements() > kMostElements) throw members.bad(members.path("shape"), "smaller");
  std::vector<Slice> slices;
  const Json& list = members.list("slices");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = "slices[" + std::to_string(i) + "]";
    tensor.slices.push_back(slice_from(members.element(list[i], where), tensor, files));
    slices.push_back(tensor.slice(tensor.slices.back()));
  }
  const std::optional<std::string> problem = problem_of_tiling(whole, slices);
  if (problem) throw UsageError(*problem);
  return tensor;
}

// What a manifest calls a tensor.
std::string place_of(std::size_t tensor, const std::string& name) {
  return "tensors[" + std::to_string(tensor) + "] (" + name + ")";
}

// Throws UsageError when two slices have a byte of a file in common.
void check_apart(const std::vector<StoredTensor>& tensors, const std::string& manifest) {
  struct Range {
    std::uint64_t begin, end;
    std::size_t tensor;
  };
  std::map<std::string_view, std::vector<Range>> by_file;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (const StoredSlice& stored : tensors[t].slices) {
      const std::uint64_t bytes = tensors[t].bytes(stored);
      if (bytes > 0) by_file[stored.file].push_back({stored.offset, stored.offset + bytes, t});
    }
  }
  for (auto& [file, ranges] : by_file) {
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
      return std::tie(a.begin, a.end, a.tensor) < std::tie(b.begin, b.end, b.tensor);
    });
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      const Range &before = ranges[i - 1], &range = ranges[i];
      if (range.begin >= before.end) continue;
      throw UsageError(manifest + ": " + place_of(before.tensor, tensors[before.tensor].name) +
                       " and " + place_of(range.tensor, tensors[range.tensor].name) +
                       " both have byte " + std::to_string(range.begin) + " of " +
                       std::string(file) + "; slices must be apart");
    }
  }
}

}  // namespace

std::string tensors_to_json(const std::vector<StoredTensor>& tensors) {
  std::string text = "[";
  for (const StoredTensor& tensor : tensors) {
    OrderedJson slices = OrderedJson::array();
    for (const StoredSlice& stored : tensor.slices) {
      slices.push_back({{"file", stored.file},
                        {"begin", stored.begin},
                        {"size", stored.size},
                        {"offset", stored.offset},
                        {"xxh3", stored.xxh3 ? OrderedJson(to_hex(*stored.xxh3)) : OrderedJson()}});
    }
    const OrderedJson line{{"group", kGroups[static_cast<std::size_t>(tensor.group)]},
                           {"name", tensor.name},
                           {"type", tensor.type},
                           {"shape", tensor.shape},
                           {"slices", std::move(slices)}};
    text += (text.size() > 1 ? ",\n    " : "\n    ") + line.dump();
  }
  return text + (tensors.empty() ? "]" : "\n  ]");
}

std::vector<StoredTensor> tensors_from(const Members& members,
                                       const std::map<std::string, FileEntry>& files) {
  std::vector<StoredTensor> tensors;
  const Json& list = members.list("tensors");
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string where = "tensors[" + std::to_string(i) + "]";
    if (list[i].is_object() && list[i].contains("name") && list[i]["name"].is_string()) {
      where += " (" + list[i]["name"].get<std::string>() + ")";
    }
    const Members entry = members.element(list[i], where);
    try {
      tensors.push_back(tensor_from(entry, files));
    } catch (const UsageError& error) {
      const std::string text = error.what();
      throw UsageError(
          text.starts_with(members.name()) ? text : members.name() + ": " + where + ": " + text);
    }
    const auto key = [](const StoredTensor& t) { return std::tie(t.group, t.name); };
    if (i > 0 && !(key(tensors[i - 1]) < key(tensors[i]))) {
      throw members.bad(where, "behind the one before it, by group and name, and there once");
    }
  }
  check_apart(tensors, members.name());
  return tensors;
}

}  // namespace convoy::train
