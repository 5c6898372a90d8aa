// Which samples were used in which step, for checks: output.log_samples of a recipe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "convoy/data/sample_source.h"

namespace convoy::train {

// Passes another source on and remembers the batch last taken. Lines "<step> <epoch> <id> <id>
// ...", with the numbers of this rank's samples in the data set, in <folder>/rank-<rank>.log.
class SampleLog final : public data::SampleSource {
 public:
  // Touches no file.
  SampleLog(std::unique_ptr<data::SampleSource> source, std::string folder, int rank);
  ~SampleLog() override;

  // Drops lines of later steps from all logs in the folder, if there is one.
  static void trim(const std::string& folder, std::int64_t resumed_at);

  // Makes the folder and this rank's file, which it goes on with if there is one: without lines of
  // later steps. The rank that has the run folder trims first, all logs that it sees; those of
  // other hosts may be elsewhere.
  void open(std::int64_t resumed_at);
  // The batch last taken belongs to this step.
  void commit(std::int64_t step);

  std::size_t size() const override { return source_->size(); }
  std::size_t batches_per_epoch() const override { return source_->batches_per_epoch(); }
  std::size_t batches_left() const override { return source_->batches_left(); }
  data::Shape shape() const override { return source_->shape(); }
  void seek(const data::Position& position) override { source_->seek(position); }
  const data::Batch* next() override;
  const data::Batch* upcoming() override { return source_->upcoming(); }
  data::Position position() const override { return source_->position(); }
  bool epoch_over() const override { return source_->epoch_over(); }
  data::SourceStatistics statistics() const override { return source_->statistics(); }

 private:
  std::unique_ptr<data::SampleSource> source_;
  std::string folder_;
  std::string path_;
  std::FILE* file_ = nullptr;
  std::string line_;
};

}  // namespace convoy::train
