// The sides of `convoy bench ddp`: ranks that stay alive between their turns.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench/rank_job.h"
#include "cli/bench/row_process.h"
#include "convoy/train/recipe.h"

namespace convoy::cli {

// The allocator that both sides have, for what Convoy doesn't keep itself (convoy/train/memory.h).
struct DdpAllocator {
  std::string name;
  RowEnvironment environment;  // which makes a program have it
};

// `given` is auto, glibc or a library, by its path or its name. auto is that which this program is
// linked with or was started with, or else tcmalloc, or where there is none glibc, which is then
// told to keep what is freed. Throws UsageError for a library that is not there, and for glibc
// where this program has another one.
DdpAllocator ddp_allocator(const std::string& given);

// What both sides train.
struct DdpSetting {
  std::string model;
  int ranks = 1;
  int threads = 1;  // of a rank
  std::int64_t batch_per_rank = 1;
  std::vector<std::string> overrides;  // of the recipe, by the user
  train::Recipe recipe;                // of all ranks
  std::string folder;                  // what both see: samples, first weights, sockets
  DdpAllocator allocator;
};

class DdpRanks {
 public:
  virtual ~DdpRanks() = default;
  // Has all ranks make so many steps: the seconds of the slowest one, and the mean losses of all.
  // Throws Failure as RowProcess::run does, and where there are not as many losses as steps.
  virtual RowAnswer run(int steps) = 0;
};

// This program's, started by `convoy run`; a single rank as it is.
class ConvoyRanks final : public DdpRanks {
 public:
  explicit ConvoyRanks(const DdpSetting& setting);
  RowAnswer run(int steps) override;
  const std::vector<RankPlace>& places() const { return job_.places(); }

 private:
  RankJob job_;
};

struct DdpPeer {
  std::string python = "python3";
  std::string script;
  bool fused = false;  // PyTorch's own fused SGD
};

// PyTorch's, each on the cores that the rank of Convoy has. `compile`: with torch.compile. When one
// of them fails, the others are killed: they would wait for it.
class PythonRanks final : public DdpRanks {
 public:
  PythonRanks(const DdpSetting& setting, const DdpPeer& peer, const std::vector<RankPlace>& places,
              bool compile);
  ~PythonRanks() override;
  PythonRanks(const PythonRanks&) = delete;
  PythonRanks& operator=(const PythonRanks&) = delete;
  RowAnswer run(int steps) override;

 private:
  std::vector<RowAnswer> read_answers();

  std::string row_;
  std::vector<std::unique_ptr<RowProcess>> processes_;
  std::chrono::minutes patience_;
};

}  // namespace convoy::cli
