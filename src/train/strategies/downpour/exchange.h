// Downpour's loop (Dean et al. 2012, section 4.1, and Algorithm 7.1 of its appendix): gradients are
// gathered and pushed, parameters are fetched, while a replica computes.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/train/downpour.h"
#include "convoy/train/parameter_service.h"
#include "train/strategies/downpour/errand.h"
#include "train/strategies/downpour/vectors.h"

namespace convoy::train {

// How far a replica is: so many samples of a portion.
struct PortionProgress {
  std::uint64_t portion = 0;  // 0: none yet
  std::uint64_t samples = 0;
  bool operator==(const PortionProgress&) const = default;
};

// Between mini-batches a replica's state is: w, its parameters; what it has gathered since the last
// push began; and what of that and of earlier pushes is not in the parameters that a fetch under
// way will bring ("lacking"). A fetch brings what servers have at its time: all pushes that they
// had acknowledged when it began are in it, and others are taken not to be. Those are made again on
// what was fetched, or given up for the replica (servers have them in any case).
//
// Statistics take part as parameters do, with what they moved by in the place of -rate x gradient.
//
// Used by one thread, with two more that fetch and push: at most one of each at a time. On several
// ranks, calls are collective, and all begin and end fetches and pushes between the same
// mini-batches.
class Exchange {
 public:
  // lost: this replica was taken for dead. ended: the job is over.
  enum class Outcome : std::uint8_t { go_on, lost, ended };

  // `ranks`: of the replica. Refers to the vectors.
  Exchange(const comm::Communicator& ranks, const Vectors& vectors, const DownpourRecipe& recipe);

  // Fetches the parameters from this service, which has joined, and forgets what was gathered with
  // another one.
  Outcome connect(ParameterService& service);
  // With a job in rounds, completes those that shards have begun without this replica. To be called
  // before anything else.
  Outcome catch_up(ParameterService& service);
  // Forgets the service: waits for what is under way, whatever becomes of it.
  void disconnect();

  // The rate of the mini-batch that is computed next, before the scale of groups.
  void set_learning_rate(double lr) { lr_ = lr; }
  // The network's .grad hold the gradient of a mini-batch: gathers it and makes a local step.
  void gather();

  // A round in which this replica has no samples: the others' mean is of theirs alone. Fetches,
  // too.
  Outcome pass(const PortionProgress& progress);
  // After each, of `samples` samples, whether or not it had a gradient: begins pushes and fetches
  // that are due, and takes over what was fetched. `portion_ends`: nothing of it is left, so that
  // what was gathered is to be pushed. Throws Failure for what a shard refuses.
  Outcome mini_batch_done(std::uint64_t samples, const PortionProgress& progress,
                          bool portion_ends);
  // Pushes the rest and waits until servers have it all.
  Outcome flush();
  // The parameters of now, before the next mini-batch.
  Outcome refresh();

  // Whether all that was begun is done, and will be taken over after the next mini-batch.
  bool settled() {
    return !(push_.under_way() && !push_.done()) && !(fetch_.under_way() && !fetch_.done());
  }
  // Whether this is so on any rank.
  bool any(bool here) const;
  // What of the work all servers have.
  const PortionProgress& acknowledged() const { return acknowledged_; }

  // So far.
  std::uint64_t pushes() const { return pushes_; }
  std::uint64_t fetches() const { return fetches_; }
  std::uint64_t dropped() const { return dropped_; }  // pushes that were too stale
  double fetch_wait_s() const { return fetch_wait_s_; }
  double push_wait_s() const { return push_wait_s_; }

 private:
  // What is the same on all ranks.
  struct Agreed {
    bool push_done = false, fetch_done = false, lost = false, ended = false;
  };
  Agreed agree();
  Outcome outcome(const Agreed& agreed) const;
  void begin_push();
  Outcome finish(Errand& errand, double& wait_s);
  // What comes of what has failed here with this error, or hasn't, on all ranks.
  Outcome agree(const std::string& error);
  Outcome end_push();
  void begin_fetch();
  Outcome end_fetch();
  void take_moves();
  Outcome end_round();
  double rate_of(const OwnVector& own) const;

  comm::Communicator ranks_;
  const Vectors& vectors_;
  DownpourRecipe recipe_;
  ParameterService* service_ = nullptr;
  double lr_ = 0;
  torch::Tensor gathered_, pushed_, fetched_, lacking_;  // blocks
  std::vector<torch::Tensor>
      before_;                      // of statistics, by own vector: when they were last looked at
  std::uint64_t mini_batches_ = 0;  // since the service was connected
  std::uint64_t gathered_samples_ = 0;
  bool gathered_any_ = false;
  bool push_due_ = false, fetch_due_ = false;
  PortionProgress progress_, pushed_progress_, acknowledged_;
  std::uint64_t base_ = 0;           // fetches that were complete when w was taken over
  std::uint64_t gathered_base_ = 0;  // of the first gradient that is gathered
  server::PushResult result_;
  std::uint64_t fetched_count_ = 0;
  std::uint64_t pushes_ = 0, fetches_ = 0, dropped_ = 0;
  double fetch_wait_s_ = 0, push_wait_s_ = 0;
  // The last ones: they end before what they use.
  Errand fetch_, push_;
};

}  // namespace convoy::train
