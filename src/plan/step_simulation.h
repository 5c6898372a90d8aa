// A training step on ranks that compute the same at the same time, and what travels meanwhile.
#pragma once

#include <cstddef>
#include <vector>

#include "convoy/plan/placement.h"

namespace convoy::plan {

// A number of each rank: `other` of some that follow one another, counted round, and `usual` of the
// rest.
struct Spread {
  double usual = 0, other = 0;
  int first = 0, count = 0;  // that have `other`

  double of(int rank, int ranks) const {
    return (rank - first % ranks + ranks) % ranks < count ? other : usual;
  }
  template <class Function>
  Spread with(Function function) const {
    return {function(usual), function(other), first, count};
  }
};

// Time passes in compute() and wait() alone; what was started goes on meanwhile. What is under way
// together has equal parts of each link, and takes at most half of a processor that computes.
//
// A processor that is shared goes on at its share. Where it is so by a quota of each period, what
// is left of a period's quota by waiting can be used at full speed (until the next one begins, of
// which only the mean is known here): a quota is as much credit, which waiting fills.
class StepSimulation {
 public:
  // All in seconds, if it had the link or processor to itself.
  struct Transfer {
    double latency = 0;  // before anything moves
    Spread out = {}, in = {};
    Spread processor = {};  // of it that moving takes
  };

  explicit StepSimulation(int ranks = 1, const Processor& processor = {})
      : ranks_(ranks), processor_(processor) {}

  std::size_t start(Transfer transfer);
  // Waits until a transfer has ended.
  void wait(std::size_t transfer);
  bool ended(std::size_t transfer) const { return !active(transfer); }
  // Computes for as long as this takes on a whole processor, and longer where it is shared, or
  // transfers need it.
  void compute(double seconds);

  double now() const { return now_; }
  double waited() const { return waited_; }
  double under_way() const { return under_way_; }  // with a transfer, or several
  double computed() const { return computed_; }    // with its share, and nothing under way

 private:
  struct Flow {
    std::size_t number = 0;
    Transfer transfer = {};
    double latency = 0;  // left
    double left = 1;     // of what is to be moved
  };

  // Gives one rank of each kind: all others have the same of everything as one of them.
  std::vector<int> different_ranks() const;
  // Gives the rate of each flow under way, in the order of active_.
  std::vector<double> rates(bool computing) const;
  double processor_taken(const std::vector<double>& rates, const std::vector<int>& ranks) const;
  double processor_taken(const std::vector<double>& rates) const {
    return processor_taken(rates, different_ranks());
  }
  void pass(double seconds, const std::vector<double>& rates);
  double next_change(const std::vector<double>& rates) const;
  bool active(std::size_t transfer) const;

  int ranks_;
  Processor processor_;
  double credit_ = 0;         // seconds of a whole processor
  std::vector<Flow> active_;  // in the order of their numbers
  std::size_t started_ = 0;
  double now_ = 0, waited_ = 0, under_way_ = 0, computed_ = 0;
};

}  // namespace convoy::plan
