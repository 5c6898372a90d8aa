// The JSON header of a safetensors file, read without trusting any of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::train {

struct TensorEntry {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // offsets into what follows the header
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // as they stand in the file
  std::map<std::string, std::string> metadata;
};

// Only the structure: offsets and sizes are the caller's to check. Memory stays in proportion to
// the tensors named, whatever the text. `file` stands in the UsageError.
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& file);

// A name of someone else's file as messages show it: in quotes, short, without control characters.
std::string in_quotes(const std::string& name);

}  // namespace convoy::train
