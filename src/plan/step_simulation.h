// A training step on ranks that compute the same at the same time, and what travels meanwhile.
#pragma once

#include <cstddef>
#include <vector>

namespace convoy::plan {

// Time passes in compute() and wait() alone; what was started goes on meanwhile. What is under way
// together has equal parts of each link, and takes at most half of a processor that computes.
class StepSimulation {
 public:
  // All in seconds, if it had the link or processor to itself. Of each rank, or of one alone where
  // all are alike.
  struct Transfer {
    double latency = 0;  // before anything moves
    std::vector<double> out = {}, in = {};
    std::vector<double> processor = {};  // of it that moving takes
  };

  std::size_t start(Transfer transfer);
  // Until a transfer has ended.
  void wait(std::size_t transfer);
  // For as long as this takes, and longer where transfers need the processor.
  void compute(double seconds);

  double now() const { return now_; }
  double waited() const { return waited_; }
  double under_way() const { return under_way_; }  // with a transfer, or several
  double computed() const { return computed_; }

 private:
  struct Flow {
    Transfer transfer;
    double latency = 0;  // left
    double left = 1;     // of what is to be moved
    bool done = false;
  };

  // Of each flow under way, in the order of active_.
  std::vector<double> rates(bool computing) const;
  double processor_taken(const std::vector<double>& rates) const;
  void pass(double seconds, const std::vector<double>& rates);
  double next_change(const std::vector<double>& rates) const;

  std::vector<Flow> flows_;  // all there were
  std::vector<std::size_t> active_;
  double now_ = 0, waited_ = 0, under_way_ = 0, computed_ = 0;
};

}  // namespace convoy::plan
