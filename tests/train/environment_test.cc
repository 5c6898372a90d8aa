// What a run tells of where it was started.
#include "train/logging/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace convoy::train {
namespace {

TEST(Environment, GpuHasTheNameThatItsDriverGives) {
  EXPECT_EQ(gpu_name(FAKE_DRIVER_FILE), "Fake GPU 80GB");
  ::setenv("FAKE_DRIVER", "none", 1);
  EXPECT_EQ(gpu_name(FAKE_DRIVER_FILE), "");
  ::unsetenv("FAKE_DRIVER");
  EXPECT_EQ(gpu_name("no-such-driver.so.1"), "");
  EXPECT_EQ(gpu_name("libm.so.6"), "");  // it has no such functions
}

}  // namespace
}  // namespace convoy::train
