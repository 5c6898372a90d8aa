#include "convoy/train/export.h"

#include <toml++/toml.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/safetensors.h"
#include "train/checkpoint/slice_reader.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

// A tensor in the file to be.
struct Entry {
  std::string name;
  const StoredTensor* tensor;
};

std::vector<Entry> entries_of(const Manifest& manifest, const std::string& checkpoint) {
  std::map<std::string, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : manifest.tensors) {
    if (tensor.group == TensorGroup::model) by_name[tensor.name] = &tensor;
  }
  std::vector<Entry> entries;
  for (const auto& [name, tensor] : by_name) entries.push_back({name, tensor});
  for (const auto& [alias, name] : manifest.aliases) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      throw UsageError(checkpoint + ": its manifest has no tensor '" + name + "', which '" + alias +
                       "' is another name of");
    }
    entries.push_back({alias, found->second});
  }
  return entries;
}

// What is to be known of the network to use it, as texts: names of classes as JSON, values of the
// recipe as TOML, which is JSON for numbers and lists of them.
std::map<std::string, std::string> metadata_of(const Manifest& manifest) {
  std::map<std::string, std::string> metadata{{"format", "pt"}, {"model", manifest.model}};
  const auto listed = manifest.lists.find("task.classes");
  const std::vector<std::string>& classes =
      listed == manifest.lists.end() ? manifest.classes : listed->second;
  if (!classes.empty()) {
    metadata["classes"] =
        nlohmann::json(classes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  try {
    const toml::table recipe = toml::parse(manifest.recipe);
    for (const char* key : {"mean", "deviation", "size", "channels"}) {
      const auto value = recipe["data"][key];
      if (!value) continue;
      std::ostringstream text;
      text << toml::toml_formatter(*value.node());
      metadata[std::string("data.") + key] = text.str();
    }
  } catch (const toml::parse_error&) {  // the weights are what was asked for
  }
  return metadata;
}

// Writes the elements of a piece to where the whole tensor has them; it begins at `offset`.
void write_piece(AtomicFile& file, std::uint64_t offset, const Slice& piece,
                 std::span<const std::byte> bytes, std::size_t element) {
  // What follows dimension `outer` is one run in both.
  std::size_t outer = piece.shape.size();
  std::size_t run = element;
  while (outer > 0) {
    --outer;
    run *= static_cast<std::size_t>(piece.size[outer]);
    if (piece.size[outer] != piece.shape[outer]) break;
  }
  std::vector<std::int64_t> at = piece.begin;
  for (; !bytes.empty(); bytes = bytes.subspan(run)) {
    std::uint64_t place = 0;
    for (std::size_t d = 0; d < at.size(); ++d)
      place =
          place * static_cast<std::uint64_t>(piece.shape[d]) + static_cast<std::uint64_t>(at[d]);
    file.write_at(offset + place * element, bytes.first(run));
    for (std::size_t d = outer; d > 0; --d) {
      if (++at[d - 1] < piece.begin[d - 1] + piece.size[d - 1]) break;
      at[d - 1] = piece.begin[d - 1];
    }
  }
}

}  // namespace

Exported export_model(const std::string& checkpoint, const std::string& file, bool overwrite) {
  if (!overwrite && fs::exists(fs::symlink_status(file))) {
    throw UsageError(file + " is there already; --overwrite replaces it");
  }
  if (fs::is_directory(file)) throw UsageError(file + " is a folder; name a file");
  const Manifest manifest = open_checkpoint(checkpoint);
  const std::vector<Entry> entries = entries_of(manifest, checkpoint);
  std::vector<TensorShape> shapes;
  for (const Entry& entry : entries)
    shapes.push_back({entry.name, entry.tensor->type, entry.tensor->shape});
  const SafetensorsLayout layout = layout_of_safetensors(file, shapes, metadata_of(manifest));
  AtomicFile output(file);
  output.write(layout.head);
  SliceReader reader(checkpoint);
  try {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const StoredTensor& tensor = *entries[i].tensor;
      const std::size_t element = size_of_type(tensor.type);
      for (const StoredSlice& stored : tensor.slices) {
        reader.read(tensor, stored, [&](const Slice& piece, std::span<const std::byte> bytes) {
          write_piece(output, layout.offsets[i], piece, bytes, element);
        });
      }
    }
  } catch (const UsageError& error) {
    throw damaged_checkpoint(checkpoint, error.what());
  }
  output.commit();
  return {entries.size(), layout.bytes};
}

}  // namespace convoy::train
