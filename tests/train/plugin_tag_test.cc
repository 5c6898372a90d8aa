// Plugins that were built for another Convoy.
#include "convoy/train/plugin_tag.h"

#include <gtest/gtest.h>

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

TEST(PluginTag, SaysWhatAPluginHasToFit) {
  const std::string tag = CONVOY_PLUGIN_TAG;
  EXPECT_EQ(tag.find("Convoy's headers " CONVOY_PUBLIC_HEADERS ", libstdc++ ABI 1, LibTorch "), 0u);
  EXPECT_TRUE(tag.ends_with(TORCH_VERSION));
}

}  // namespace
}  // namespace convoy::train
