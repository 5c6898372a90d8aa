// Recordings of spoken words as labeled frames of log Mel filter-bank energies: the input of the
// speech network of Dean et al. 2012 (Large Scale Distributed Deep Networks, section 5), 11
// consecutive frames of 25 ms with 40 energies each. docs/data-sets.md has every formula.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "convoy/data/dataset.h"

namespace convoy::data {

struct FilterBankOptions {
  enum class Window : std::uint8_t { hamming, hann };

  int filters = 40;
  double window_s = 0.025;  // how long a frame is
  double step_s = 0.010;    // from one frame to the next
  Window window = Window::hamming;
  double preemphasis = 0.97;  // x[n] - preemphasis x[n - 1]; 0: none
  double low_hz = 0;          // where the first filter begins, and the last one ends
  double high_hz = 0;         // 0: half the sampling rate
  double floor = 1e-8;        // least energy, below the logarithm
};

// WAV files of one folder, named WORD_..._NUMBER.wav, as 7_jackson_32.wav.
struct Recordings {
  // First and last number, both included.
  struct Numbers {
    std::int64_t first = 0;
    std::int64_t last = 0;
  };
  std::string folder;
  std::optional<Numbers> numbers;  // nothing: all files, whose names then need no number
};

struct SpeechOptions {
  Recordings recordings;
  // These are what the network is trained on, for training and evaluation alike: their words are
  // the classes, in alphabetical order, and their frames have a mean of 0 and a deviation of 1 in
  // each filter.
  Recordings reference;
  // Frame t of T belongs to state t * states / T (rounded down) of its word, and to the class word
  // * states + state.
  int states = 1;
  int context = 5;  // frames before, and as many after
  FilterBankOptions filter_bank;
};

// Throws UsageError for options that make no sense whatever the recordings are.
void validate(const SpeechOptions& options);

// A sample is a frame with its context, floats of {1, 2 context + 1, filters}; before the first and
// after the last frame of a recording that one is repeated. Samples follow each other in the
// alphabetical order of files, and in time. Energies are computed here and held in memory: 4 bytes
// for each filter of each frame, and of 2 context more frames for each recording.
//
// Throws UsageError as validate() does, for filters that the sampling rate leaves without
// frequencies, for more than a million classes, and naming the file for what is no WAV file of
// PCM of 16 bits, has another sampling rate than the others, is shorter than a frame, or has a word
// that the reference lacks. Hidden files, folders and files of other names than *.wav are ignored.
std::shared_ptr<Dataset> open_speech(const SpeechOptions& options);

}  // namespace convoy::data
