// Recipes: TOML of any kind ends in a recipe or in a UsageError; what was read is printed and read
// again to the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "convoy/base/error.h"
#include "convoy/train/recipe.h"

namespace {

convoy::train::Vocabulary vocabulary() {
  using convoy::train::Option;
  convoy::train::Vocabulary v;
  v.models["lenet"] = {{"width", std::int64_t{1}, ""}, {"names", std::vector<std::string>{}, ""}};
  v.readers["idx"] = {{"images", std::string(), "", Option::Kind::plain, true},
                      {"scales", std::vector<double>{1, 2}, ""}};
  v.tasks["classification"] = {{"label_smoothing", 0.0, ""}};
  v.strategies["other"] = {{"name", std::string("x"), ""}};
  v.strategies["sync"] = {{"bucket", std::string("8MiB"), ""}, {"flag", true, ""}};
  return v;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const convoy::train::Vocabulary words = vocabulary();
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string printed;
  try {
    const auto recipe = convoy::train::parse_recipe({text, "fuzz.toml", "/"}, {}, words);
    printed = convoy::train::print_recipe(recipe, false);
  } catch (const convoy::UsageError&) {
    return 0;
  }
  const auto again = convoy::train::parse_recipe({printed, "printed.toml", "/"}, {}, words);
  if (convoy::train::print_recipe(again, false) != printed) std::abort();
  return 0;
}
