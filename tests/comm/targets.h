// Tests of kernels for every instruction set that they are compiled for and that runs here.
#pragma once

#include <gtest/gtest.h>

#include <hwy/highway.h>
#include <cstdint>
#include <string>
#include <vector>

namespace convoy::comm {

inline std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> list;
  std::int64_t left = (hwy::SupportedTargets() | HWY_STATIC_TARGET) & HWY_TARGETS;
  for (; left != 0; left &= left - 1) list.push_back(left & -left);
  return list;
}

// Its tests run with the target of their parameter, one of targets().
class OnEachTarget : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { choose(GetParam()); }
  void TearDown() override { choose(0); }

  // 0: the best one again.
  static void choose(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
  }
};

inline std::string name_of_target(const testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}

}  // namespace convoy::comm
