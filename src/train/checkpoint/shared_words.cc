#include "train/checkpoint/shared_words.h"

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "convoy/base/error.h"

namespace convoy::train {
namespace {

// By their bits, whatever they are: NaN is itself.
template <class Value>
void add(const nlohmann::json& from, std::map<std::string, Value>& to,
         std::map<std::string, nlohmann::json>& known) {
  for (const auto& [name, value] : from.items()) {
    const auto [had, fresh] = known.try_emplace(name, value);
    if (!fresh && had->second != value)
      throw UsageError("two ranks have different values for '" + name + "' of the state");
    if constexpr (std::is_same_v<Value, double>) {
      to[name] = std::bit_cast<double>(value.template get<std::uint64_t>());
    } else {
      to[name] = value.template get<Value>();
    }
  }
}

}  // namespace

std::string words_of(const State& state) {
  nlohmann::json numbers = nlohmann::json::object();
  for (const auto& [name, value] : state.numbers)
    numbers[name] = std::bit_cast<std::uint64_t>(value);
  const nlohmann::json all{
      {"aliases", state.aliases}, {"numbers", numbers}, {"lists", state.lists}};
  // Names are bytes.
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void add_words(const std::vector<std::string>& words, Manifest& manifest) {
  std::map<std::string, nlohmann::json> aliases, numbers, lists;
  for (const std::string& text : words) {
    const nlohmann::json all = nlohmann::json::parse(text);
    add(all.at("aliases"), manifest.aliases, aliases);
    add(all.at("numbers"), manifest.numbers, numbers);
    add(all.at("lists"), manifest.lists, lists);
  }
}

}  // namespace convoy::train
