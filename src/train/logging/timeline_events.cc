#include <algorithm>
#include <nlohmann/json.hpp>

#include "convoy/train/timeline.h"

namespace convoy::train {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Viewers take the numbers of threads for unique among all processes.
int thread_of(int rank, int row) {
  constexpr int kRows = 10000;
  return (rank + 1) * kRows + row;
}

double microseconds(Clock::duration time) {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()) /
         1000;
}

}  // namespace

void Timeline::add(int row, std::string name, Clock::time_point begin, Clock::time_point end,
                   Numbers numbers) {
  spans_.push_back({row, std::move(name), begin, end, std::move(numbers)});
}

void Timeline::name_row(int row, std::string name) { rows_[row] = std::move(name); }

Clock::time_point Timeline::begin() const {
  const auto first = std::min_element(
      spans_.begin(), spans_.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return first->begin;
}

std::string Timeline::events(int rank, const std::string& host, Clock::time_point zero) const {
  std::string text;
  const auto put = [&text](const OrderedJson& event) {
    text += (text.empty() ? "" : ",\n") +
            event.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  };
  const auto describe = [&](const char* what, int thread, const OrderedJson& arguments) {
    put({{"ph", "M"}, {"name", what}, {"pid", rank + 1}, {"tid", thread}, {"args", arguments}});
  };
  const std::string name = "rank " + std::to_string(rank) + " on " + host;
  describe("process_name", thread_of(rank, 0), {{"name", name}});
  describe("process_sort_index", thread_of(rank, 0), {{"sort_index", rank}});
  for (const auto& [row, title] : rows_) {
    describe("thread_name", thread_of(rank, row), {{"name", title}});
    describe("thread_sort_index", thread_of(rank, row), {{"sort_index", row}});
  }
  for (const Span& span : spans_) {
    OrderedJson event{{"ph", "X"},
                      {"name", span.name},
                      {"pid", rank + 1},
                      {"tid", thread_of(rank, span.row)},
                      {"ts", microseconds(span.begin - zero)},
                      {"dur", microseconds(span.end - span.begin)}};
    for (const auto& [key, number] : span.numbers) event["args"][key] = number;
    put(event);
  }
  return text;
}

}  // namespace convoy::train
