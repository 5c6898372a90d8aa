// Reads a timeline back, and checks what every one has to keep to.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace convoy::test {

struct TimelineSpan {
  std::string name;
  double begin = 0;  // microseconds
  double end = 0;
  nlohmann::json numbers;
};

// [rank][row's name], in the order of their begin.
using TimelineRows = std::map<std::string, std::vector<TimelineSpan>>;

// Times are rounded to nanoseconds.
inline constexpr double kRounding = 0.002;

// Of two spans on a row, one lies within the other, or they don't touch.
inline void expect_nested(const std::vector<TimelineSpan>& spans) {
  std::vector<double> open;
  for (const TimelineSpan& span : spans) {
    while (!open.empty() && open.back() <= span.begin + kRounding) open.pop_back();
    if (!open.empty()) EXPECT_LE(span.end, open.back() + kRounding) << span.name;
    open.push_back(span.end);
  }
}

inline std::vector<TimelineRows> read_timeline(const std::string& text, int ranks) {
  const auto json = nlohmann::json::parse(text);
  std::map<int, std::string> processes;
  std::map<int, std::pair<int, std::string>> rows;  // thread -> process, name
  std::vector<TimelineRows> result(static_cast<std::size_t>(ranks));
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") != "M") continue;
    const auto& arguments = event.at("args");
    if (event.at("name") == "process_name") {
      EXPECT_TRUE(processes.emplace(event.at("pid"), arguments.at("name")).second) << event;
    } else if (event.at("name") == "thread_name") {
      EXPECT_TRUE(rows.emplace(event.at("tid"), std::pair(event.at("pid").get<int>(),
                                                          arguments.at("name").get<std::string>()))
                      .second)
          << event;
    }
  }
  EXPECT_EQ(processes.size(), result.size());
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(processes[rank + 1].find("rank " + std::to_string(rank) + " on "), 0u);
  }
  constexpr double kRounding = 1e-3;  // a nanosecond: begin + length may not be the end to the bit
  double first = 1e300;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "M") continue;
    EXPECT_EQ(event.at("ph"), "X") << event;
    const double begin = event.at("ts"), length = event.at("dur");
    EXPECT_GE(length, 0) << event;
    first = std::min(first, begin);
    const auto row = rows.find(event.at("tid"));
    if (row == rows.end()) {
      ADD_FAILURE() << "a row without a name: " << event;
      continue;
    }
    EXPECT_EQ(event.at("pid"), row->second.first) << event;
    result.at(event.at("pid").get<std::size_t>() - 1)[row->second.second].push_back(
        {event.at("name"), begin, begin + length, event.value("args", nlohmann::json())});
  }
  EXPECT_NEAR(first, 0, 0.01);
  for (TimelineRows& rank : result) {
    for (auto& [name, spans] : rank) {
      std::sort(spans.begin(), spans.end(), [](const TimelineSpan& a, const TimelineSpan& b) {
        return a.begin < b.begin || (a.begin == b.begin && a.end > b.end);
      });
      expect_nested(spans);
      for (std::size_t i = 1; name != "training" && i < spans.size(); ++i) {
        EXPECT_GE(spans[i].begin + kRounding, spans[i - 1].end) << name;
      }
    }
  }
  return result;
}

inline int count_spans(const std::vector<TimelineSpan>& spans, const std::string& prefix) {
  return static_cast<int>(std::count_if(spans.begin(), spans.end(), [&](const TimelineSpan& span) {
    return span.name.starts_with(prefix);
  }));
}

}  // namespace convoy::test
