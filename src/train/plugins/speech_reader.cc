#include "train/plugins/speech_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/data/speech.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"

namespace convoy::train {
namespace {

using data::FilterBankOptions;
using Numbers = data::Recordings::Numbers;

// Two whole numbers, or none.
std::optional<Numbers> numbers_of(const Options& o, const char* key) {
  const std::vector<double>& numbers = o.numbers(key);
  if (numbers.empty()) return std::nullopt;
  constexpr double kMost = 1e15;
  const bool whole = std::all_of(numbers.begin(), numbers.end(), [](double number) {
    return number >= 0 && number <= kMost && number == std::trunc(number);
  });
  if (numbers.size() != 2 || !whole || numbers[0] > numbers[1]) {
    const bool turned = numbers.size() == 2 && whole;
    throw UsageError(std::string("speech: ") + key +
                     " has to be two whole numbers, the first and the last one: [5, 49]" +
                     (turned ? "; here the first is larger" : ""));
  }
  return Numbers{static_cast<std::int64_t>(numbers[0]), static_cast<std::int64_t>(numbers[1])};
}

int small(const Options& o, const char* key) {
  const std::int64_t number = o.integer(key);
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp(number, -kMost, kMost));  // out of range all the same
}

FilterBankOptions::Window window_of(const std::string& name) {
  if (name == "hamming") return FilterBankOptions::Window::hamming;
  if (name == "hann") return FilterBankOptions::Window::hann;
  throw UsageError("speech: window is '" + name + "'; it can be hamming or hann");
}

data::SpeechOptions options_of(const Options& o) {
  data::SpeechOptions speech;
  speech.recordings = {o.text("path"), numbers_of(o, "numbers")};
  speech.reference = {o.text("reference"), numbers_of(o, "reference_numbers")};
  speech.states = small(o, "states");
  speech.context = small(o, "context");
  FilterBankOptions& bank = speech.filter_bank;
  bank.filters = small(o, "filters");
  bank.window_s = o.number("window_ms") / 1000;
  bank.step_s = o.number("step_ms") / 1000;
  bank.window = window_of(o.text("window"));
  bank.preemphasis = o.number("preemphasis");
  bank.low_hz = o.number("low_hz");
  bank.high_hz = o.number("high_hz");
  bank.floor = o.number("floor");
  return speech;
}

// Appends what is wrong with this table alone. Nothing if it is.
std::optional<data::SpeechOptions> checked(const Options& o, const char* table,
                                           std::vector<std::string>& problems) {
  try {
    data::SpeechOptions options = options_of(o);
    data::validate(options);
    return options;
  } catch (const UsageError& error) {
    problems.push_back(std::string(table) + ": " + error.what());
    return std::nullopt;
  }
}

// A network that is evaluated on other numbers than it was trained on would only be worse.
void check_same(const DataRecipe& data, std::vector<std::string>& problems) {
  for (const Option& option : data.train.specification()) {
    if (option.key == "path" || option.key == "numbers") continue;
    if (data.train.value(option.key) == data.validation.value(option.key)) continue;
    problems.push_back("data.validation." + option.key + " has to be the same as data.train." +
                       option.key +
                       ": a network is evaluated on what it was trained on but for the recordings");
  }
}

Numbers all_or(const std::optional<Numbers>& numbers) {
  using Limits = std::numeric_limits<std::int64_t>;
  return numbers.value_or(Numbers{Limits::min(), Limits::max()});
}

// Recordings of validation that are part of the reference, and not trained on, would tell the
// network something of what it is evaluated on.
void check_apart(const data::SpeechOptions& train, const data::SpeechOptions& validation,
                 std::vector<std::string>& problems) {
  const std::string& folder = train.reference.folder;
  if (train.recordings.folder != folder || validation.recordings.folder != folder) return;
  const Numbers trained = all_or(train.recordings.numbers);
  const Numbers reference = all_or(train.reference.numbers);
  const Numbers evaluated = all_or(validation.recordings.numbers);
  const Numbers both{std::max(reference.first, evaluated.first),
                     std::min(reference.last, evaluated.last)};
  if (both.first > both.last) return;
  if (trained.first <= both.first && both.last <= trained.last) return;
  problems.push_back(
      "data.validation.numbers: some of these recordings are part of the reference, but not "
      "trained on; give reference_numbers of both tables the numbers of data.train");
}

// Floats would be refused once they are open; mirrored, they would be high where they are low.
void check_transforms(const DataRecipe& data, std::vector<std::string>& problems) {
  const auto expect = [&](bool good, const char* key) {
    if (good) return;
    problems.push_back(std::string("data.") + key +
                       " is for pictures, and the reader speech has none: leave it out");
  };
  expect(data.size == 0, "size");
  expect(data.channels < 3, "channels");
  expect(!data.augment.flip, "augment.flip");
  expect(!data.evaluate.flip, "evaluate.flip");
}

void check_recipe(const Recipe& recipe, std::vector<std::string>& problems) {
  const DataRecipe& data = recipe.data;
  check_transforms(data, problems);
  const auto train = checked(data.train, "data.train", problems);
  if (!data.has_validation) return;
  const auto validation = checked(data.validation, "data.validation", problems);
  check_same(data, problems);
  if (train && validation) check_apart(*train, *validation, problems);
}

}  // namespace

void add_speech_reader(Registry& registry) {
  const data::SpeechOptions usual;
  const FilterBankOptions& bank = usual.filter_bank;
  constexpr auto kPath = Option::Kind::path;
  registry.add_reader(
      "speech", [](const Options& o) { return data::open_speech(options_of(o)); },
      {{"path", std::string(), "folder of WAV files, WORD_..._NUMBER.wav", kPath, true},
       {"numbers", std::vector<double>(), "first and last number of those to take; empty: all"},
       {"reference", std::string(), "folder of the recordings that are trained on", kPath, true},
       {"reference_numbers", std::vector<double>(), "first and last number of those; empty: all"},
       {"states", std::int64_t{usual.states}, "parts of each word, which are its classes"},
       {"context", std::int64_t{usual.context}, "frames before, and as many after"},
       {"filters", std::int64_t{bank.filters}, "Mel filters, with an energy of each frame"},
       {"window_ms", bank.window_s * 1000, "length of a frame"},
       {"step_ms", bank.step_s * 1000, "from one frame to the next"},
       {"window", std::string("hamming"), "hamming or hann"},
       {"preemphasis", bank.preemphasis, "x[n] - preemphasis x[n - 1]; 0: none"},
       {"low_hz", bank.low_hz, "where the first filter begins"},
       {"high_hz", bank.high_hz, "where the last filter ends; 0: half the sampling rate"},
       {"floor", bank.floor, "least energy, below the logarithm"}},
      check_recipe);
}

}  // namespace convoy::train
