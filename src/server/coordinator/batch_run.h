// A batch optimization that a coordinator runs, and that another process can go on with at any
// moment.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "convoy/optim/batch.h"
#include "server/coordinator/batch_record.h"

namespace convoy::server::coordinator {

// Where it keeps what must survive it. Calls return when it does, and throw Failure.
class BatchMemory {
 public:
  virtual ~BatchMemory() = default;
  virtual Bytes start() = 0;    // empty: there is none
  virtual Bytes answers() = 0;  // the same
  // An iteration begins: from here on there are no answers, or those of the one before.
  virtual void begin(Bytes start) = 0;
  // All answers of this iteration so far.
  virtual void answered(Bytes answers) = 0;
};

// The vectors that commands change, somewhere else. Commands are numbered in the order in which
// they are given; one that was done has no effect when it comes again under its number.
class NumberedSpace : public optim::Space {
 public:
  virtual std::uint64_t commands() const = 0;  // given so far
  virtual void go_back(std::uint64_t commands) = 0;
  virtual void skip() = 0;  // a command that is known to be done
};

// What the method asks for, and an objective that begins an evaluation by one command of the space.
//
// The method (convoy::optim) is plain code over Space and Objective. Every scalar that it gets is
// stored before it gets it. A process that goes on after another one runs the iteration from its
// start, with the answers that are stored: what it is told is the same, so it does the same. A
// command with an answer behind it is known to be done. From the last answer on it gives all
// commands again, of which those that were done have no effect.
//
// One thread at a time.
class BatchRun {
 public:
  // Goes on from what is in `memory`. Throws UsageError for what is no such record, and for options
  // that validate() refuses.
  BatchRun(const optim::BatchOptions& options, NumberedSpace& space, optim::Objective& objective,
           BatchMemory& memory);
  ~BatchRun();

  // The first evaluation, then an iteration at a time, until there is an ending. What space,
  // objective and memory throw passes through; the next call makes the same iteration again. Throws
  // UsageError where the method asks for something else than it did when the answers were stored.
  optim::BatchIteration next();

  bool over() const { return start_.last.ending != optim::BatchEnding::none; }
  const optim::BatchIteration& last() const { return start_.last; }
  const optim::BatchState& state() const { return start_.state; }

 private:
  class Answers;
  class FedSpace;
  class FedObjective;

  NumberedSpace& space_;
  BatchMemory& memory_;
  BatchStart start_;
  std::unique_ptr<Answers> answers_;
  std::unique_ptr<FedSpace> fed_space_;
  std::unique_ptr<FedObjective> fed_objective_;
  optim::BatchOptimizer optimizer_;
};

}  // namespace convoy::server::coordinator
