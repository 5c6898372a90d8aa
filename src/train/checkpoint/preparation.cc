#include "train/checkpoint/preparation.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/toml_text.h"

namespace convoy::train {
namespace {

using ChannelValues = std::vector<double>;

std::optional<ChannelValues> prepared_values(const std::map<std::string, std::string>& metadata,
                                             const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  const auto list = nlohmann::json::parse(found->second, nullptr, false);
  if (!list.is_array() || list.empty()) return std::nullopt;
  ChannelValues values;
  for (const auto& value : list) {
    if (!value.is_number()) return std::nullopt;
    values.push_back(value.get<double>());
  }
  return values;
}

// One value stands for all channels.
bool are_alike(const ChannelValues& a, const ChannelValues& b) {
  constexpr double kRounding = 1e-3;  // of those who copy them
  const std::size_t channels = std::max(a.size(), b.size());
  if ((a.size() != 1 && a.size() != channels) || (b.size() != 1 && b.size() != channels))
    return false;
  for (std::size_t i = 0; i < channels; ++i) {
    if (std::abs(a[a.size() == 1 ? 0 : i] - b[b.size() == 1 ? 0 : i]) > kRounding) return false;
  }
  return true;
}

std::string channels_text(const ChannelValues& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "[" : ", ") + shortest(value);
  return text + "]";
}

}  // namespace

std::string other_preparation(const std::map<std::string, std::string>& metadata,
                              const DataRecipe& data) {
  const auto mean = prepared_values(metadata, "data.mean"),
             deviation = prepared_values(metadata, "data.deviation");
  if (!mean || !deviation) {
    if (!are_alike(data.mean, {0}) || !are_alike(data.deviation, {1})) return "";
    return "it does not say how pictures were prepared for its network, and data.mean = [0] with "
           "data.deviation = [1] leaves them as they are: networks of torchvision want data.mean = "
           "[0.485, 0.456, 0.406] and data.deviation = [0.229, 0.224, 0.225]";
  }
  if (are_alike(data.mean, *mean) && are_alike(data.deviation, *deviation)) return "";
  return "its network was trained with data.mean = " + channels_text(*mean) +
         " and data.deviation = " + channels_text(*deviation) + ", here they are " +
         channels_text(data.mean) + " and " + channels_text(data.deviation);
}

}  // namespace convoy::train
