#include "convoy/train/timeline.h"

#include <gtest/gtest.h>

#include "tests/train/read_timeline.h"

namespace convoy::train {
namespace {

using std::chrono::microseconds;

TEST(Timeline, SpansKeepTheirTimesRowsAndNumbers) {
  const Clock::time_point zero = Clock::now();
  const auto at = [zero](int time) { return zero + microseconds(time); };
  Timeline timeline;
  EXPECT_TRUE(timeline.empty());
  timeline.add(Timeline::kTraining, "backward", at(5), at(50));
  timeline.add(Timeline::kTraining, "forward", at(0), at(5));
  timeline.add(Timeline::kTraining, "copy \"a\\\xff\"", at(7), at(9), {{"bytes", 1LL << 40}});
  timeline.name_row(1, "bucket 0");
  timeline.add(1, "reduce", at(9), at(60));
  EXPECT_EQ(timeline.begin(), zero);

  const std::string other = Timeline().events(0, "node1", zero);
  const std::string mine = timeline.events(1, "node\"2", zero);
  const auto ranks = test::read_timeline("{\"traceEvents\": [" + other + ",\n" + mine + "]}", 2);
  EXPECT_TRUE(ranks[0].empty());
  ASSERT_EQ(ranks[1].size(), 2u);
  const auto& training = ranks[1].at("training");
  ASSERT_EQ(training.size(), 3u);
  EXPECT_EQ(training[0].name, "forward");
  EXPECT_EQ(training[1].name, "backward");
  EXPECT_DOUBLE_EQ(training[1].begin, 5);
  EXPECT_DOUBLE_EQ(training[1].end, 50);
  EXPECT_EQ(training[2].name, "copy \"a\\\ufffd\"");
  EXPECT_EQ(training[2].numbers, (nlohmann::json{{"bytes", 1LL << 40}}));
  EXPECT_EQ(ranks[1].at("bucket 0").size(), 1u);
  EXPECT_NE(mine.find("rank 1 on node\\\"2"), std::string::npos);
}

TEST(Timeline, TimesBeforeZeroStayInOrder) {
  const Clock::time_point zero = Clock::now();
  Timeline timeline;
  timeline.add(Timeline::kTraining, "early", zero - microseconds(3), zero);
  const auto json = nlohmann::json::parse("[" + timeline.events(0, "h", zero) + "]");
  EXPECT_DOUBLE_EQ(json.back().at("ts").get<double>(), -3);
}

}  // namespace
}  // namespace convoy::train
