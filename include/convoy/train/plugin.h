// A shared library with models, readers, tasks, optimizers and strategies of your own, for `convoy
// train`.
//
//   #include <convoy/train/plugin.h>
//   CONVOY_PLUGIN(registry) {
//     registry.add_model("mine", [](const convoy::train::ModelRequest& r) { ... });
//   }
//
// and in the recipe: plugins = ["build/libmine.so"]. examples/plugin/ is a complete one.
#pragma once

#include "convoy/train/registry.h"

namespace convoy::train {

// Changes when a plugin has to be compiled anew; so does Convoy's or LibTorch's version.
inline constexpr int kPluginInterface = 9;

}  // namespace convoy::train

#define CONVOY_PLUGIN_STRING_(x) #x
#define CONVOY_PLUGIN_STRING(x) CONVOY_PLUGIN_STRING_(x)

// Defines the two functions that `convoy` looks for in a plugin.
#define CONVOY_PLUGIN(registry)                                                                    \
  static void convoy_plugin_body(convoy::train::Registry& registry);                               \
  extern "C" const char* convoy_plugin_interface() {                                               \
    static_assert(convoy::train::kPluginInterface == 9);                                           \
    return "convoy plugin 9, LibTorch " TORCH_VERSION;                                             \
  }                                                                                                \
  extern "C" void convoy_plugin_register(convoy::train::Registry* to) { convoy_plugin_body(*to); } \
  static void convoy_plugin_body(convoy::train::Registry& registry)
