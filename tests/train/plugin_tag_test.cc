// Plugins that were built for another Convoy.
#include "convoy/train/plugin_tag.h"

#include <gtest/gtest.h>

#include <string>

#include "convoy/base/error.h"
#include "convoy/train/plugin.h"
#include "tests/base/scratch.h"

namespace convoy::train {
namespace {

TEST(PluginTag, AnOtherOneIsRefusedAndSaid) {
  const std::string said =
      test::message_of<UsageError>([] { Registry().load_plugins({OLD_PLUGIN_FILE}); });
  EXPECT_NE(said.find(OLD_PLUGIN_FILE), std::string::npos) << said;
  EXPECT_NE(said.find("was built for 'Convoy's headers 0123456789abcdef, libstdc++ ABI 1, LibTorch "
                      "2.1.0', this is '" CONVOY_PLUGIN_TAG "'; compile it anew"),
            std::string::npos)
      << said;
}

// Which C++ library the compiler takes, and in which of its forms.
std::string standard_library() {
#ifdef _LIBCPP_ABI_VERSION
  return "libc++ ABI " + std::to_string(_LIBCPP_ABI_VERSION);
#else
  return "libstdc++ ABI " + std::to_string(_GLIBCXX_USE_CXX11_ABI);
#endif
}

TEST(PluginTag, SaysWhatAPluginHasToFit) {
  const std::string tag = CONVOY_PLUGIN_TAG;
  EXPECT_EQ(
      tag.find("Convoy's headers " CONVOY_PUBLIC_HEADERS ", " + standard_library() + ", LibTorch "),
      0u)
      << tag;
  EXPECT_TRUE(tag.ends_with(TORCH_VERSION));
}

}  // namespace
}  // namespace convoy::train
