// For tests alone: a process waits at a named point of its work, so that it can be killed at
// exactly that point.
//
// CONVOY_TEST_HOLD is "POINT=FILE", "POINT:COUNT=FILE" or "POINT:COUNT@RANK=FILE". The process that
// comes to the point for the COUNT-th time (1 if nothing is said; only as rank RANK, if one is
// said) makes FILE, which then holds its process id and the point, and goes on when FILE is gone.
// "POINT:COUNT+=FILE" is every COUNT-th time, and a POINT that ends in a dot all points that begin
// so. Without the variable a call costs a branch. Points:
//   setup             of a rank, when all is open for training and nothing in the folder changed
//   start             of a rank, before its first update
//   step              after an update, which counts those of this process
//   allreduce         before a rank takes part in the reduction of a bucket of gradients
//   checkpoint.write  all parts of a checkpoint are written, and it has no name yet
//   checkpoint.name   it has got its name
//   launch            mpirun was started, and has told nothing
//   supervise         a supervisor has started, and has told nothing
//   job.start         of a job, after each role that it has started
// and of a coordinator's batch optimization
//   batch.keep        before vectors are freed
//   batch.direction   before a direction is made
//   batch.search      before the weights of an evaluation are made
//   batch.evaluation  replicas have been told of an evaluation
//   batch.seal        all portions are done, and shards were not asked for the gradient
//   batch.products    before shards are asked for scalar products
//   batch.history     before a step or a change of the gradient is made
//   batch.answer      before scalars that it was told are stored
//   batch.iteration   an iteration is done, and that is not stored
#pragma once

#include <string>
#include <string_view>

namespace convoy {

// Any thread. Throws UsageError if the variable is not of that form.
void hold_at(std::string_view point);

// What the variable says; for the tests of it.
struct Hold {
  std::string point;
  long count = 1;
  bool every = false;  // time that is a multiple of the count
  int rank = -1;       // any
  std::string file;
};
Hold parse_hold(const std::string& text);
bool holds(const Hold& hold, std::string_view point);

}  // namespace convoy
