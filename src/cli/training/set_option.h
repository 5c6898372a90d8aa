// The option of commands that take a recipe.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace convoy::cli {

// --set KEY=VALUE, which may be repeated.
inline void add_set_option(CLI::App& command, std::vector<std::string>& overrides) {
  command
      .add_option("--set", overrides, "Another value for a key: training.batch=64; may be repeated")
      ->type_name("KEY=VALUE")
      ->type_size(1)
      ->allow_extra_args(false);
}

}  // namespace convoy::cli
