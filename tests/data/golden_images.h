// The pixels that Pillow made; see tests/golden/make_images.py.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tests/data/support.h"

namespace convoy::data {

class GoldenImages {
 public:
  struct Case {
    std::string file;      // of decoded ones
    std::vector<int> box;  // of resized ones: left, top, right, bottom
    int height = 0, width = 0, channels = 0;
    std::span<const std::uint8_t> pixels;
  };

  GoldenImages() : raw_(read_file(fixture("images.raw"))) {
    json_ = nlohmann::json::parse(read_text_file(fixture("images.json")));
  }

  std::vector<Case> cases(const std::string& group) const {
    std::vector<Case> result;
    for (const auto& entry : json_.at(group)) {
      Case item;
      item.file = entry.value("file", "");
      item.box = entry.value("box", std::vector<int>{});
      item.height = entry.at("height");
      item.width = entry.at("width");
      item.channels = entry.at("channels");
      const auto size = static_cast<std::size_t>(item.height * item.width * item.channels);
      item.pixels = std::span(reinterpret_cast<const std::uint8_t*>(raw_.data()), raw_.size())
                        .subspan(entry.at("offset").get<std::size_t>(), size);
      result.push_back(item);
    }
    return result;
  }

 private:
  Bytes raw_;
  nlohmann::json json_;
};

}  // namespace convoy::data
