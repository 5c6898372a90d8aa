// The measurement behind `convoy bench allreduce`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/baseline/mpi_allreduce.h"
#include "comm/collectives/allreduce/choice.h"
#include "convoy/comm/world.h"

namespace convoy::cli {

// What is measured: MPI's own allreduce, what the selection chooses for the size, or one algorithm.
struct Candidate {
  enum class Kind { mpi, automatic, algorithm };
  Kind kind = Kind::algorithm;
  std::string name;
  comm::AllreduceChoice choice = {};  // of Kind::algorithm
};

struct AllreduceSettings {
  std::vector<Candidate> candidates;
  comm::Type type = comm::Type::f32;
  int repetitions = 7;
  // How long one measurement of a candidate takes at least; small buffers are reduced many times.
  double seconds = 0.02;
  // Convoy's algorithms get registered memory, as gradients have it; MPI's own never does.
  bool registered = true;
};

// Times of one candidate at one size, by repetition: of one allreduce, on the slowest rank.
using AllreduceTimes = std::vector<double>;

class AllreduceMeasure {
 public:
  AllreduceMeasure(const comm::World& world, AllreduceSettings settings);

  // One list per candidate. In each repetition all candidates are measured, starting with another
  // one each time. Collective. Throws Failure if a result is wrong.
  std::vector<AllreduceTimes> run(std::size_t count);

  // The choice of a candidate for a buffer; not for MPI's own.
  comm::AllreduceChoice choice(const Candidate& candidate, std::size_t bytes) const;

 private:
  // The two buffers of one size.
  struct Memory {
    std::vector<std::byte> ordinary;
    comm::RegisteredMemory registered;
  };
  comm::Buffer buffer(const Candidate& candidate, Memory& memory, std::size_t count) const;
  void reduce(const Candidate& candidate, comm::Buffer data);
  void check(const Candidate& candidate, comm::Buffer data);
  double seconds(const Candidate& candidate, comm::Buffer data, int times);

  const comm::World& world_;
  AllreduceSettings settings_;
  std::unique_ptr<comm::MpiAllreduce> mpi_;  // if it is a candidate
};

// Bytes per second that each rank sends to the next while it receives as many from the previous:
// the median of `repetitions` passes, each as slow as its slowest rank. Collective.
double measure_goodput(const comm::World& world, int repetitions);

// Bytes per second that each rank reads and writes when all of them stream through buffers of
// their own that fit no cache, adding a number to each element: the median as above. Collective.
double measure_stream(const comm::World& world, int repetitions);

}  // namespace convoy::cli
