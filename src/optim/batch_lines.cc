// The state of a batch optimizer as text.
#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/optim/batch.h"

namespace convoy::optim {
namespace {

constexpr std::array<std::string_view, 5> kRoleWords = {"weights", "gradient", "direction", "step",
                                                        "change"};

std::string number_line(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// "step 12.0"
std::string name_line(const VectorName& name) {
  return std::string(kRoleWords[static_cast<std::size_t>(name.role)]) + " " +
         std::to_string(name.iteration) + "." + std::to_string(name.evaluation);
}

// Takes a line apart, word by word.
class LineReader {
 public:
  explicit LineReader(const std::string& line) : line_(line), left_(line) {}

  std::string_view word() {
    if (left_.empty()) refuse();
    const std::size_t end = left_.find(' ');
    const std::string_view word = left_.substr(0, end);
    left_ = end == std::string_view::npos ? std::string_view() : left_.substr(end + 1);
    return word;
  }
  bool more() const { return !left_.empty(); }
  void end() const {
    if (more()) refuse();
  }

  template <typename T>
  T number(std::string_view text) const {
    T value{};
    const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || at != text.data() + text.size()) refuse();
    return value;
  }
  template <typename T>
  T count(std::string_view text) const {
    const T value = number<T>(text);
    if (value < 0) refuse();
    return value;
  }
  VectorName name() {
    const std::string_view role = word(), numbers = word();
    VectorName name;
    std::size_t i = 0;
    while (i < kRoleWords.size() && kRoleWords[i] != role) ++i;
    const std::size_t point = numbers.find('.');
    if (i == kRoleWords.size() || point == std::string_view::npos) refuse();
    name.role = static_cast<VectorRole>(i);
    name.iteration = count<std::int64_t>(numbers.substr(0, point));
    name.evaluation = count<std::int32_t>(numbers.substr(point + 1));
    return name;
  }
  [[noreturn]] void refuse() const {
    throw UsageError("the state of a batch optimizer: '" + line_.substr(0, 100) +
                     "' is no line of it");
  }

 private:
  const std::string& line_;
  std::string_view left_;
};

}  // namespace

std::vector<std::string> lines_of(const BatchState& state) {
  std::vector<std::string> lines = {
      "iteration " + std::to_string(state.iteration), "weights " + name_line(state.weights),
      "loss " + number_line(state.loss), "evaluations " + std::to_string(state.evaluations)};
  std::string history = "history";
  for (const std::int64_t iteration : state.history) history += " " + std::to_string(iteration);
  lines.push_back(std::move(history));
  lines.push_back("direction " + name_line(state.direction));
  lines.push_back("step " + number_line(state.step));
  lines.push_back("slope " + number_line(state.slope));
  lines.push_back("stalled " + std::to_string(state.stalled));
  for (const auto& [pair, product] : state.products) {
    lines.push_back("product " + name_line(pair.first) + " " + name_line(pair.second) + " " +
                    number_line(product));
  }
  return lines;
}

BatchState batch_state_of(std::span<const std::string> lines) {
  BatchState state;
  const std::map<std::string_view, std::function<void(LineReader&)>> fields = {
      {"iteration",
       [&](LineReader& line) { state.iteration = line.count<std::int64_t>(line.word()); }},
      {"weights", [&](LineReader& line) { state.weights = line.name(); }},
      {"loss", [&](LineReader& line) { state.loss = line.number<double>(line.word()); }},
      {"evaluations",
       [&](LineReader& line) { state.evaluations = line.count<std::int64_t>(line.word()); }},
      {"history",
       [&](LineReader& line) {
         while (line.more()) state.history.push_back(line.count<std::int64_t>(line.word()));
       }},
      {"direction", [&](LineReader& line) { state.direction = line.name(); }},
      {"step", [&](LineReader& line) { state.step = line.number<double>(line.word()); }},
      {"slope", [&](LineReader& line) { state.slope = line.number<double>(line.word()); }},
      {"stalled", [&](LineReader& line) { state.stalled = line.count<int>(line.word()); }}};
  std::map<std::string_view, int> seen;
  for (const std::string& text : lines) {
    LineReader line(text);
    const std::string_view key = line.word();
    if (key == "product") {
      const VectorName a = line.name(), b = line.name();
      const double product = line.number<double>(line.word());
      if (b < a || !state.products.try_emplace({a, b}, product).second) line.refuse();
    } else {
      const auto field = fields.find(key);
      if (field == fields.end() || ++seen[field->first] > 1) line.refuse();
      field->second(line);
    }
    line.end();
  }
  for (const auto& [key, read] : fields) {
    if (!seen.contains(key))
      throw UsageError("the state of a batch optimizer has no line '" + std::string(key) + "'");
  }
  return state;
}

}  // namespace convoy::optim
