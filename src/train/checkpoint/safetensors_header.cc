#include "train/checkpoint/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "convoy/base/error.h"

namespace convoy::train {
namespace {

constexpr std::size_t kMaxDimensions = 64;

// Follows {"__metadata__": {name: text, ...}, name: {"dtype", "shape", "data_offsets"}, ...} event
// by event and stops at the first that doesn't fit, so a hostile header builds no tree of values.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader header;
  std::string problem;  // when an event was refused

  bool null() override { return refuse("has a null"); }
  bool boolean(bool) override { return refuse("has a true or false"); }
  bool number_integer(number_integer_t) override { return refuse("has a negative number"); }
  bool number_float(number_float_t, const string_t& text) override {
    return refuse("has the number " + text.substr(0, 40) + ", which is no 64-bit integer");
  }
  bool binary(binary_t&) override { return refuse("has binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return refuse("has a shape that is too large");
      }
      if (tensor().shape.size() == kMaxDimensions) return refuse("has more than 64 dimensions");
      tensor().shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (place_ == Place::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? tensor().begin : tensor().end) = value;
      return true;
    }
    return refuse("has a number where none belongs");
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      header.metadata[key_] = value;
      return true;
    }
    if (place_ != Place::tensor || key_ != "dtype") return refuse("has a text where none belongs");
    tensor().type = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::outside) {
      place_ = Place::top;
    } else if (place_ == Place::top) {
      place_ = key_ == "__metadata__" ? Place::metadata : Place::tensor;
      seen_.clear();
      offsets_ = 0;
      if (place_ == Place::tensor) header.tensors.push_back({key_, {}, {}, 0, 0});
    } else {
      return refuse("has an object where none belongs");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor && seen_.size() != 3) {
      return refuse("needs dtype, shape and data_offsets");
    }
    place_ = place_ == Place::top ? Place::outside : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::tensor && key_ == "shape") {
      place_ = Place::shape;
    } else if (place_ == Place::tensor && key_ == "data_offsets") {
      place_ = Place::offsets;
    } else {
      return refuse("has a list where none belongs");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::offsets && offsets_ != 2) return refuse("needs two data_offsets");
    place_ = Place::tensor;
    return true;
  }

  bool key(string_t& name) override {
    key_ = name;
    if (place_ == Place::tensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      return refuse("has the key " + in_quotes(name) + "; there are dtype, shape and data_offsets");
    }
    std::unordered_set<std::string>& seen = place_ == Place::top ? names_ : seen_;
    if (!seen.insert(name).second) {
      if (place_ != Place::top) return refuse("has the key " + in_quotes(name) + " twice");
      problem = "its header has " + in_quotes(name) + " twice";
      return false;
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    if (problem.empty()) {
      problem = "its header is not valid JSON at byte " + std::to_string(8 + position);
    }
    return false;
  }

 private:
  enum class Place { outside, top, metadata, tensor, shape, offsets };

  TensorEntry& tensor() { return header.tensors.back(); }

  bool refuse(const std::string& what) {
    const bool in_metadata = place_ == Place::metadata;
    const bool in_tensor =
        place_ == Place::tensor || place_ == Place::shape || place_ == Place::offsets;
    if (in_metadata) {
      problem = "its __metadata__ " + what + ": only texts by name are allowed";
    } else if (in_tensor) {
      problem = "tensor " + in_quotes(tensor().name) + " " + what;
    } else {
      problem = "its header " + what + ": it is an object of objects";
    }
    return false;
  }

  Place place_ = Place::outside;
  std::string key_;
  std::unordered_set<std::string> names_;  // of tensors
  std::unordered_set<std::string> seen_;   // of the object that is open below the top
  int offsets_ = 0;
};

}  // namespace

std::string in_quotes(const std::string& name) {
  constexpr std::size_t kLongest = 100;
  std::string shown = "'";
  for (const char c : name.substr(0, kLongest)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return shown + (name.size() > kLongest ? "...'" : "'");
}

SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& file) {
  const auto bad = [&file](const std::string& problem) {
    return UsageError(file + " is not a valid safetensors file: " + problem);
  };
  if (text.empty() || text.front() != '{') throw bad("its header does not begin with '{'");
  // The JSON parser takes a zero byte for the end of the text.
  if (text.find('\0') != std::string_view::npos) throw bad("its header has a zero byte");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &reader)) throw bad(reader.problem);
  return std::move(reader.header);
}

}  // namespace convoy::train
