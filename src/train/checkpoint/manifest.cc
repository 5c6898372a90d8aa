#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/train/checkpoint_folder.h"

namespace convoy::train {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // for people who read the file

// What stands around the checksum at the end of the text.
constexpr std::string_view kSealBegin = ",\n  \"xxh3\": \"";
constexpr std::string_view kSealEnd = "\"\n}\n";
constexpr std::size_t kSealBytes = kSealBegin.size() + 16 + kSealEnd.size();

std::uint64_t hash_of(std::string_view text) { return xxh3(std::as_bytes(std::span(text))); }

// JSON has no numbers for these three, but a strategy's numbers may be any.
OrderedJson number_to_json(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

// Reads members of one object; messages name the file and the member.
class Members {
 public:
  Members(const Json& object, std::string name, std::string prefix = "")
      : object_(object), name_(std::move(name)), prefix_(std::move(prefix)) {
    if (!object_.is_object()) throw bad(prefix_.empty() ? "the text" : prefix_, "an object");
  }

  UsageError bad(const std::string& key, const std::string& right) const {
    return UsageError(name_ + ": " + key + " must be " + right);
  }

  std::string path(const std::string& key) const {
    return prefix_.empty() ? key : prefix_ + "." + key;
  }

  const Json& at(const std::string& key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) throw UsageError(name_ + ": the key " + path(key) + " is missing");
    return *found;
  }

  std::string text(const std::string& key) const { return text_of(at(key), path(key)); }

  std::uint64_t natural(const std::string& key) const { return natural_of(at(key), path(key)); }

  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most) const {
    const Json& value = at(key);
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

  const Json& list(const std::string& key) const {
    if (!at(key).is_array()) throw bad(path(key), "a list");
    return at(key);
  }

  std::vector<std::string> texts(const std::string& key) const {
    std::vector<std::string> all;
    for (const Json& value : list(key)) all.push_back(text_of(value, path(key) + "[]"));
    return all;
  }

  std::string text_of(const Json& value, const std::string& where) const {
    if (!value.is_string()) throw bad(where, "a text");
    return value.get<std::string>();
  }

  std::uint64_t natural_of(const Json& value, const std::string& where) const {
    if (!value.is_number_unsigned()) throw bad(where, "an integer of 0 or more");
    return value.get<std::uint64_t>();
  }

  double number_of(const Json& value, const std::string& where) const {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    throw bad(where, "a number, or one of the texts nan, inf and -inf");
  }

  const Json& json() const { return object_; }

 private:
  const Json& object_;
  std::string name_;
  std::string prefix_;
};

data::Position position_from(const Members& members) {
  data::Position position;
  position.epoch = members.natural("epoch");
  position.generation = members.natural("generation");
  if (members.json().contains("members")) position.members = members.natural("members");
  std::size_t last = 0;
  for (const Json& pair : members.list("consumed")) {
    const std::string where = members.path("consumed");
    if (!pair.is_array() || pair.size() != 2) throw members.bad(where, "pairs [begin, end]");
    const data::Range range{members.natural_of(pair[0], where), members.natural_of(pair[1], where)};
    if (range.begin < last || range.end < range.begin) {
      throw members.bad(where, "ascending ranges that don't overlap");
    }
    last = range.end;
    position.consumed.push_back(range);
  }
  return position;
}

// Names are joined to the checkpoint's path: nothing that leads out of it.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name != "manifest.json" &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

Manifest read_members(const Members& members) {
  Manifest manifest;
  manifest.model = members.text("model");
  manifest.strategy = members.text("strategy");
  manifest.recipe = members.text("recipe");
  manifest.classes = members.texts("classes");
  manifest.step = members.integer("step", 0, std::numeric_limits<std::int64_t>::max());
  manifest.position = position_from(members.object("position"));
  manifest.world = static_cast<int>(members.integer("world", 1, std::numeric_limits<int>::max()));
  manifest.samples = members.natural("samples");
  manifest.data_fingerprint = members.hex("data_fingerprint");
  manifest.seconds = members.number("seconds");
  if (!members.at("score").is_null()) manifest.score = members.number("score");
  const Members aliases = members.object("aliases");
  for (const auto& [name, value] : aliases.json().items()) {
    manifest.aliases[name] = aliases.text_of(value, aliases.path(name));
  }
  const Members numbers = members.object("numbers");
  for (const auto& [name, value] : numbers.json().items()) {
    manifest.numbers[name] = numbers.number_of(value, numbers.path(name));
  }
  const Members lists = members.object("lists");
  for (const auto& item : lists.json().items())
    manifest.lists[item.key()] = lists.texts(item.key());
  const Members files = members.object("files");
  for (const auto& item : files.json().items()) {
    if (!is_plain_name(item.key())) {
      throw members.bad("files", "names of files in the checkpoint's own folder");
    }
    const Members entry = files.object(item.key());
    manifest.files[item.key()] = {entry.natural("bytes"), entry.hex("xxh3")};
  }
  return manifest;
}

// Whether the checksum at the end is there and right.
bool is_sealed(std::string_view text) {
  if (text.size() < kSealBytes) return false;
  const std::string_view body = text.substr(0, text.size() - kSealBytes);
  const std::string seal = std::string(kSealBegin) + to_hex(hash_of(body)) + std::string(kSealEnd);
  return text.substr(body.size()) == seal;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  OrderedJson json;
  json["format"] = Manifest::kFormat;
  json["model"] = manifest.model;
  json["strategy"] = manifest.strategy;
  json["step"] = manifest.step;
  json["score"] = manifest.score ? number_to_json(*manifest.score) : OrderedJson(nullptr);
  json["seconds"] = number_to_json(manifest.seconds);
  json["world"] = manifest.world;
  OrderedJson consumed = OrderedJson::array();
  for (const data::Range& range : manifest.position.consumed) {
    consumed.push_back({range.begin, range.end});
  }
  json["position"] = {{"epoch", manifest.position.epoch},
                      {"generation", manifest.position.generation},
                      {"members", manifest.position.members},
                      {"consumed", consumed}};
  json["samples"] = manifest.samples;
  json["data_fingerprint"] = to_hex(manifest.data_fingerprint);
  json["classes"] = manifest.classes;
  json["aliases"] = manifest.aliases;
  json["numbers"] = OrderedJson::object();
  for (const auto& [name, value] : manifest.numbers) json["numbers"][name] = number_to_json(value);
  json["lists"] = manifest.lists;
  json["files"] = OrderedJson::object();
  for (const auto& [name, entry] : manifest.files) {
    json["files"][name] = {{"bytes", entry.bytes}, {"xxh3", to_hex(entry.xxh3)}};
  }
  json["recipe"] = manifest.recipe;
  // Names of classes are names of folders, which need not be UTF-8: better a replaced character
  // than no checkpoint.
  std::string text = json.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
  text.resize(text.size() - 2);  // the last line, "}"
  return text + std::string(kSealBegin) + to_hex(hash_of(text)) + std::string(kSealEnd);
}

Manifest manifest_from_json(const std::string& text, const std::string& name) {
  const bool sealed = is_sealed(text);
  const Json json = Json::parse(text, nullptr, false);
  // First, since another format may have another checksum.
  if (json.is_object()) {
    const auto format = json.find("format");
    if (format != json.end() && format->is_number_integer() && *format > Manifest::kFormat) {
      throw UsageError(name + " has the format " + format->dump() + ", this Convoy reads up to " +
                       std::to_string(Manifest::kFormat) + ": use a newer one");
    }
  }
  if (!sealed) {
    throw UsageError(name + " is damaged: it must end with the checksum of what stands before it");
  }
  const Members members(json, name);
  members.integer("format", 1, Manifest::kFormat);
  return read_members(members);
}

}  // namespace convoy::train
