// Values of TOML as the types of a recipe's keys.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace convoy::train {

template <class T>
inline constexpr const char* kTypeName = "a text";
template <>
inline constexpr const char* kTypeName<bool> = "true or false";
template <>
inline constexpr const char* kTypeName<std::int64_t> = "a whole number";
template <>
inline constexpr const char* kTypeName<double> = "a number";
template <>
inline constexpr const char* kTypeName<std::vector<double>> = "a list of numbers";
template <>
inline constexpr const char* kTypeName<std::vector<std::string>> = "a list of texts";

// Nothing: it has another type. Whole numbers are numbers, too.
template <class T>
std::optional<T> convert(const toml::node& node) {
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* integer = node.as_integer()) return static_cast<double>(integer->get());
    return node.value_exact<double>();
  } else if constexpr (std::is_same_v<T, std::vector<double>> ||
                       std::is_same_v<T, std::vector<std::string>>) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return std::nullopt;
    T values;
    for (const toml::node& element : *array) {
      auto value = convert<typename T::value_type>(element);
      if (!value) return std::nullopt;
      values.push_back(std::move(*value));
    }
    return values;
  } else {
    return node.value_exact<T>();
  }
}

}  // namespace convoy::train
