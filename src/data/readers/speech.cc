#include "convoy/data/speech.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "data/packed/names.h"
#include "data/readers/recordings.h"
#include "data/sound/filter_bank.h"
#include "data/sound/wav.h"

namespace convoy::data {
namespace {

constexpr std::size_t kMostSoundBytes = std::size_t{1} << 30;  // of a file
constexpr int kMostStates = 8192;
constexpr std::size_t kMostClasses = 1'000'000;
constexpr int kMostContext = 1000;

template <class... Numbers>
void add_numbers(Xxh3& hash, Numbers... numbers) {
  const double all[] = {static_cast<double>(numbers)...};
  hash.update(std::as_bytes(std::span(all)));
}

void add_hash(Xxh3& hash, std::uint64_t other) { hash.update(std::as_bytes(std::span(&other, 1))); }

struct Analyzed {
  std::vector<float> energies;
  std::uint64_t hash = 0;  // of what was heard
};

// Energies of files, which all have the sampling rate of the first one.
class Analyzer {
 public:
  explicit Analyzer(const FilterBankOptions& options) : options_(options) {}

  Analyzed operator()(const std::string& file) {
    const Sound sound = parse_wav(read_file(file, kMostSoundBytes), file);
    if (!bank_) {
      bank_.emplace(options_, sound.rate);
      rate_ = sound.rate;
      first_ = file;
    }
    if (sound.rate != rate_) {
      throw UsageError(file + ": " + std::to_string(sound.rate) + " samples per second; " + first_ +
                       " has " + std::to_string(rate_) + ", and all have to have the same");
    }
    if (bank_->frames(sound.samples.size()) == 0) {
      throw UsageError(file + ": " + std::to_string(sound.samples.size()) +
                       " samples, less than the " + std::to_string(bank_->window()) +
                       " of a frame: take it out of the folder");
    }
    Xxh3 hash;
    add_numbers(hash, sound.rate);
    hash.update(std::as_bytes(std::span(sound.samples)));
    return {bank_->energies(sound.samples), hash.digest()};
  }

 private:
  FilterBankOptions options_;
  std::optional<FilterBank> bank_;
  int rate_ = 0;
  std::string first_;
};

// Of all frames that are added.
class Statistics {
 public:
  explicit Statistics(std::size_t filters) : sums_(filters, 0), squares_(filters, 0) {}

  void add(std::span<const float> frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const double value = frames[i];
      sums_[i % sums_.size()] += value;
      squares_[i % sums_.size()] += value * value;
    }
    count_ += static_cast<double>(frames.size() / sums_.size());
  }

  // Of each filter. Throws UsageError where a deviation is 0.
  struct Result {
    std::vector<double> means, deviations;
  };
  Result result() const {
    Result result;
    for (std::size_t m = 0; m < sums_.size(); ++m) {
      const double mean = sums_[m] / count_;
      const double variance = squares_[m] / count_ - mean * mean;
      // What rounding leaves of the squares where all are the same.
      if (!(variance > 1e-9 * (1 + mean * mean))) {
        throw UsageError(
            "the reference of the recordings has the same energy in all frames of filter " +
            std::to_string(m) + " of " + std::to_string(sums_.size()) +
            " (from 0): it is silent there; filters between other frequencies, or a lower floor, "
            "might not be");
      }
      result.means.push_back(mean);
      result.deviations.push_back(std::sqrt(variance));
    }
    return result;
  }

 private:
  std::vector<double> sums_, squares_;
  double count_ = 0;
};

void normalize(const Statistics::Result& by, std::span<float> frames) {
  const std::size_t filters = by.means.size();
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::size_t m = i % filters;
    frames[i] = static_cast<float>((frames[i] - by.means[m]) / by.deviations[m]);
  }
}

struct Utterance {
  std::string path;
  std::int64_t word = 0;
  std::size_t begin = 0;  // the number of its first sample
  std::size_t frames = 0;
  // Their energies, with copies of the first before them and of the last behind: the context of a
  // frame lies in one piece.
  std::vector<float> rows;
};

class Speech final : public Dataset {
 public:
  explicit Speech(const SpeechOptions& options)
      : states_(static_cast<std::size_t>(options.states)),
        context_(static_cast<std::size_t>(options.context)),
        filters_(static_cast<std::size_t>(options.filter_bank.filters)) {
    const std::vector<Recording> reference = list_recordings(options.reference);
    const std::vector<Recording> recordings = list_recordings(options.recordings);
    name_all(reference, recordings);
    Analyzer analyze(options.filter_bank);
    Statistics statistics(filters_);
    Xxh3 of_reference, of_samples;
    const bool same = reference == recordings;
    for (std::size_t i = 0; i < reference.size(); ++i) {
      const Analyzed sound = analyze(reference[i].path);
      statistics.add(sound.energies);
      add_hash(of_reference, sound.hash);
      if (same) append(utterances_[i], sound, of_samples);
    }
    const Statistics::Result by = statistics.result();
    for (Utterance& u : utterances_) {
      if (!same) append(u, analyze(u.path), of_samples);
      normalize(by, u.rows);
    }
    note(options.filter_bank, of_reference.digest(), of_samples.digest());
  }

  bool pictures() const override { return false; }
  std::size_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return classes_; }

  Record read(std::size_t i, std::vector<std::byte>&) const override {
    const Utterance& u = utterance_of(i);
    const std::size_t rows = 2 * context_ + 1;
    const auto values = std::span(u.rows).subspan((i - u.begin) * filters_, rows * filters_);
    return {std::as_bytes(values), Encoding::planar_f32,
            Shape{1, static_cast<int>(rows), static_cast<int>(filters_)}, label(i)};
  }

  std::string key(std::size_t i) const override {
    const Utterance& u = utterance_of(i);
    return u.path + "[" + std::to_string(i - u.begin) + "]";
  }

  std::int64_t label(std::size_t i) const override {
    const Utterance& u = utterance_of(i);
    const std::size_t state = (i - u.begin) * states_ / u.frames;
    return u.word * static_cast<std::int64_t>(states_) + static_cast<std::int64_t>(state);
  }

  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  // Classes, and utterances without their frames.
  void name_all(const std::vector<Recording>& reference, const std::vector<Recording>& recordings) {
    std::vector<std::string> words;
    for (const Recording& recording : reference) words.push_back(recording.word);
    words = distinct(std::move(words));
    if (words.size() * states_ > kMostClasses) {
      throw UsageError("speech: " + std::to_string(words.size()) + " words of " +
                       std::to_string(states_) + " states are more than " +
                       std::to_string(kMostClasses) +
                       " classes; a word is what stands before the first '_' in a file's name");
    }
    for (const std::string& word : words) {
      for (std::size_t state = 0; state < states_; ++state)
        classes_.push_back(states_ == 1 ? word : word + "." + std::to_string(state));
    }
    const ClassNumbers numbers(words);
    for (const Recording& recording : recordings) {
      const std::int64_t word = numbers[recording.word];
      if (word < 0) {
        throw UsageError(recording.path + ": the reference has no recording of the word '" +
                         recording.word + "'");
      }
      Utterance& u = utterances_.emplace_back();
      u.path = recording.path;
      u.word = word;
    }
  }

  // What was heard, how samples are made of it, and what their classes mean.
  void note(const FilterBankOptions& bank, std::uint64_t of_reference, std::uint64_t of_samples) {
    Xxh3 hash;
    add_numbers(hash, states_, context_, bank.filters, bank.window_s, bank.step_s,
                static_cast<int>(bank.window), bank.preemphasis, bank.low_hz, bank.high_hz,
                bank.floor);
    add_hash(hash, of_reference);
    add_hash(hash, of_samples);
    for (const std::string& name : classes_)
      hash.update(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
    fingerprint_ = hash.digest();
  }

  void append(Utterance& to, const Analyzed& sound, Xxh3& hash) {
    const std::span<const float> frames = sound.energies;
    to.begin = size_;
    to.frames = frames.size() / filters_;
    size_ += to.frames;
    to.rows.reserve(frames.size() + 2 * context_ * filters_);
    const auto add = [&to](std::span<const float> row) {
      to.rows.insert(to.rows.end(), row.begin(), row.end());
    };
    for (std::size_t i = 0; i < context_; ++i) add(frames.first(filters_));
    add(frames);
    for (std::size_t i = 0; i < context_; ++i) add(frames.last(filters_));
    add_numbers(hash, to.word);
    add_hash(hash, sound.hash);
  }

  const Utterance& utterance_of(std::size_t i) const {
    const auto after =
        std::upper_bound(utterances_.begin(), utterances_.end(), i,
                         [](std::size_t sample, const Utterance& u) { return sample < u.begin; });
    return *(after - 1);
  }

  std::size_t states_, context_, filters_;
  std::size_t size_ = 0;
  std::vector<std::string> classes_;
  std::vector<Utterance> utterances_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

void validate(const SpeechOptions& options) {
  if (options.states < 1 || options.states > kMostStates) {
    throw UsageError("speech: states is " + std::to_string(options.states) +
                     "; it has to be from 1 to " + std::to_string(kMostStates));
  }
  if (options.context < 0 || options.context > kMostContext) {
    throw UsageError("speech: context is " + std::to_string(options.context) +
                     "; it has to be from 0 to " + std::to_string(kMostContext));
  }
  check(options.filter_bank);
}

std::shared_ptr<Dataset> open_speech(const SpeechOptions& options) {
  validate(options);
  return std::make_shared<Speech>(options);
}

}  // namespace convoy::data
