// A shared library with models, readers, tasks, optimizers, schedules and strategies of your own,
// for `convoy train`.
//
//   #include <convoy/train/plugin.h>
//   CONVOY_PLUGIN(registry) {
//     registry.add_model("mine", [](const convoy::train::ModelRequest& r) { ... });
//   }
//
// and in the recipe: plugins = ["build/libmine.so"]. examples/plugin/ is a complete one.
#pragma once

#include <version>

#include "convoy/train/plugin_tag.h"  // made when Convoy is built
#include "convoy/train/registry.h"

// This is what a plugin was built for: Convoy's public headers, the binary interface of the C++
// library, and LibTorch. Compilers don't matter: what GCC builds fits what clang builds.
#define CONVOY_PLUGIN_STRING_(x) #x
#define CONVOY_PLUGIN_STRING(x) CONVOY_PLUGIN_STRING_(x)
#ifdef _LIBCPP_ABI_VERSION
#define CONVOY_PLUGIN_LIBRARY "libc++ ABI " CONVOY_PLUGIN_STRING(_LIBCPP_ABI_VERSION)
#else
#define CONVOY_PLUGIN_LIBRARY "libstdc++ ABI " CONVOY_PLUGIN_STRING(_GLIBCXX_USE_CXX11_ABI)
#endif
#define CONVOY_PLUGIN_TAG \
  "Convoy's headers " CONVOY_PUBLIC_HEADERS ", " CONVOY_PLUGIN_LIBRARY ", LibTorch " TORCH_VERSION

// Defines the two functions that `convoy` looks for in a plugin.
#define CONVOY_PLUGIN(registry)                                                                    \
  static void convoy_plugin_body(convoy::train::Registry& registry);                               \
  extern "C" const char* convoy_plugin_interface() { return CONVOY_PLUGIN_TAG; }                   \
  extern "C" void convoy_plugin_register(convoy::train::Registry* to) { convoy_plugin_body(*to); } \
  static void convoy_plugin_body(convoy::train::Registry& registry)
