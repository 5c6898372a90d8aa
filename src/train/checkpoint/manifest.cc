#include <cmath>
#include <nlohmann/json.hpp>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/train/checkpoint_folder.h"
#include "train/checkpoint/manifest_members.h"
#include "train/checkpoint/manifest_tensors.h"

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
  manifest.format = static_cast<int>(members.integer("format", 1, Manifest::kFormat));
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
  if (members.json().contains("metric")) manifest.metric = members.text("metric");
  if (!members.at("score").is_null()) manifest.score = members.number("score");
  const auto measured = members.json().find("measured_on");
  if (measured != members.json().end() && !measured->is_null())
    manifest.measured_on = members.hex("measured_on");
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
    const std::uint64_t bytes = entry.natural("bytes");
    const std::uint64_t hashed = manifest.format == 1 ? bytes : entry.natural("hashed");
    if (hashed > bytes) throw entry.bad(entry.path("hashed"), "at most its bytes");
    manifest.files[item.key()] = {bytes, hashed, entry.hex("xxh3")};
  }
  if (manifest.format > 1) manifest.tensors = tensors_from(members, manifest.files);
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
  json["metric"] = manifest.metric;
  json["score"] = manifest.score ? number_to_json(*manifest.score) : OrderedJson(nullptr);
  json["measured_on"] =
      manifest.measured_on ? OrderedJson(to_hex(*manifest.measured_on)) : OrderedJson(nullptr);
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
    json["files"][name] = {
        {"bytes", entry.bytes}, {"hashed", entry.hashed}, {"xxh3", to_hex(entry.xxh3)}};
  }
  json["recipe"] = manifest.recipe;
  // Names of classes are names of folders, which need not be UTF-8: better a replaced character
  // than no checkpoint.
  std::string text = json.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
  text.resize(text.size() - 2);  // the last line, "}"
  text += ",\n  \"tensors\": " + tensors_to_json(manifest.tensors);
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
  return read_members(members);
}

}  // namespace convoy::train
