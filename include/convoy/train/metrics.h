// This is what a run reports: JSON lines, TensorBoard event files, and lines or a bar on the
// terminal. Torch-free.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/descriptor.h"

namespace convoy::train {

// This is one line of metrics.jsonl: {"kind": "step", "step": 12, "loss": 1.25, ...}. Keys carry
// their unit; docs/formats/metrics.md has the kinds and their keys.
struct MetricsRow {
  std::string kind;
  std::int64_t step = 0;
  std::vector<std::pair<std::string, double>> numbers;  // not finite: written as null
  std::vector<std::pair<std::string, std::string>> strings;
  std::vector<std::pair<std::string, std::vector<double>>> lists = {};
  std::vector<std::pair<std::string, std::vector<std::string>>> names = {};
};

// metrics.jsonl of a run folder. Each row is written with one write(2) and appears at once.
class MetricsFile {
 public:
  // Goes on after step `resumed_at`: rows of later steps, left by a run that got further than its
  // last checkpoint, and an incomplete last line are dropped first, and so is an evaluation at that
  // step unless the checkpoint has its score (`evaluated`): it will be made again. -1 starts a new
  // file. Throws Failure when it can't be written.
  MetricsFile(const std::string& path, std::int64_t resumed_at, bool evaluated = true);

  // Returns false where somebody has removed the file: it is made anew then, with this row. Throws
  // Failure when that, or the row, can't be written.
  bool add(const MetricsRow& row);

 private:
  Descriptor file_;
  std::string path_;
};

// Scalars in TensorBoard's own file format: "events.out.tfevents.<time>.<host>.<pid>" in `folder`.
class TensorBoardFile {
 public:
  // A resumed run starts another file, which tells TensorBoard to forget what lies beyond step
  // `resumed_at` (>= 0). Throws Failure when it can't be written.
  TensorBoardFile(const std::string& folder, std::int64_t resumed_at);

  // Adds all of one step. Tags with '/' make groups ("train/loss").
  void add(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  void add_text(std::int64_t step, const std::string& tag, const std::string& text);
  const std::string& path() const { return path_; }

 private:
  Descriptor file_;
  std::string path_;
};

// Says where long work stands. On a terminal one line that is overwritten: a bar, the numbers, the
// rate and the time left; elsewhere a plain line every `interval_s` seconds at most.
struct ProgressOptions {
  int columns = 0;         // width of the terminal; 0: no terminal
  double interval_s = 10;  // between plain lines; a terminal is updated at most 10 times a second
  int fd = 1;
};

// Gives the options for this process's standard output: of the terminal itself, or of the one that
// `convoy run` writes to, which it tells its ranks through CONVOY_COLUMNS.
ProgressOptions progress_on_standard_output();

class Progress {
 public:
  Progress(const ProgressOptions& options, std::string unit);
  ~Progress();  // finishes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `label` ("epoch 2/10"), `done` of `total` units of work so far (images), and further text
  // ("loss 0.532"). The rate is measured over the last seconds.
  void update(const std::string& label, double done, double total, const std::string& text);
  // Writes a whole line that stays, above the bar.
  void line(const std::string& text);
  // Gives the line as update() would show it; for tests.
  std::string render(const std::string& label, double done, double total, const std::string& text,
                     double units_per_s) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::train
