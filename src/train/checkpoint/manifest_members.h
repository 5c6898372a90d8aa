// Members of JSON objects, read without trusting any of them.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"

namespace convoy::train {

// Reads members of one object; messages name the file and the member.
class Members {
 public:
  Members(const nlohmann::json& object, std::string name, std::string prefix = "")
      : object_(object), name_(std::move(name)), prefix_(std::move(prefix)) {
    if (!object_.is_object()) throw bad(prefix_.empty() ? "the text" : prefix_, "an object");
  }

  UsageError bad(const std::string& key, const std::string& right) const {
    return UsageError(name_ + ": " + key + " must be " + right);
  }

  std::string path(const std::string& key) const {
    return prefix_.empty() ? key : prefix_ + "." + key;
  }

  const nlohmann::json& at(const std::string& key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) throw UsageError(name_ + ": the key " + path(key) + " is missing");
    return *found;
  }

  std::string text(const std::string& key) const { return text_of(at(key), path(key)); }

  std::uint64_t natural(const std::string& key) const { return natural_of(at(key), path(key)); }

  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most) const {
    const nlohmann::json& value = at(key);
    const std::uint64_t number =
        value.is_number_unsigned() ? value.get<std::uint64_t>() : std::uint64_t(most) + 1;
    if (number > static_cast<std::uint64_t>(most) || static_cast<std::int64_t>(number) < least) {
      throw bad(path(key),
                "an integer from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return static_cast<std::int64_t>(number);
  }

  double number(const std::string& key) const { return number_of(at(key), path(key)); }

  std::uint64_t hex(const std::string& key) const {
    const std::string digits = text(key);
    try {
      return from_hex(digits);
    } catch (const UsageError&) {
      throw bad(path(key), "16 lower-case hexadecimal digits");
    }
  }

  Members object(const std::string& key) const { return {at(key), name_, path(key)}; }

  // An object in a list.
  Members element(const nlohmann::json& value, const std::string& where) const {
    return {value, name_, path(where)};
  }

  const std::string& name() const { return name_; }  // of the file

  const nlohmann::json& list(const std::string& key) const {
    if (!at(key).is_array()) throw bad(path(key), "a list");
    return at(key);
  }

  std::vector<std::string> texts(const std::string& key) const {
    std::vector<std::string> all;
    for (const nlohmann::json& value : list(key)) all.push_back(text_of(value, path(key) + "[]"));
    return all;
  }

  std::string text_of(const nlohmann::json& value, const std::string& where) const {
    if (!value.is_string()) throw bad(where, "a text");
    return value.get<std::string>();
  }

  std::uint64_t natural_of(const nlohmann::json& value, const std::string& where) const {
    if (!value.is_number_unsigned()) throw bad(where, "an integer of 0 or more");
    return value.get<std::uint64_t>();
  }

  double number_of(const nlohmann::json& value, const std::string& where) const {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    throw bad(where, "a number, or one of the texts nan, inf and -inf");
  }

  const nlohmann::json& json() const { return object_; }

 private:
  const nlohmann::json& object_;
  std::string name_;
  std::string prefix_;
};

}  // namespace convoy::train
