#include "train/rank_work.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <vector>

#include "train/outcome.h"

namespace convoy::train {
namespace {

// How often ranks that work tell the others, who wait for no more than that.
constexpr std::chrono::milliseconds kTick(100);

bool is_ready(const std::future<std::string>& outcome) {
  return outcome.wait_for(kTick) == std::future_status::ready;
}

}  // namespace

std::string on_rank(const comm::Communicator& communicator, int rank,
                    const std::function<std::string()>& work) {
  if (communicator.size() == 1) return result_of(outcome_of(work));
  std::future<std::string> outcome;
  if (communicator.rank() == rank)
    outcome = std::async(std::launch::async, [&work] { return outcome_of(work); });
  while (true) {
    const bool ready = outcome.valid() && is_ready(outcome);
    // Nothing yet is an empty text.
    const std::string told = communicator.broadcast_text(ready ? outcome.get() : "", rank);
    if (!told.empty()) return result_of(told);
  }
}

void on_every_rank(const comm::Communicator& communicator, const std::function<void()>& work) {
  if (communicator.size() == 1) {
    result_of(outcome_of(work));
    return;
  }
  auto outcome = std::async(std::launch::async, [&work] { return outcome_of(work); });
  Ticks(communicator).finish([&outcome](std::chrono::milliseconds patience) {
    return outcome.wait_for(patience) != std::future_status::ready;
  });
  throw_first(communicator, outcome.get());
}

void throw_first(const comm::Communicator& communicator, const std::string& outcome) {
  const std::vector<std::string> all = communicator.gather_text(outcome);
  const auto failed = [](const std::string& text) { return text[0] != kDone; };
  const auto first = std::find_if(all.begin(), all.end(), failed);
  if (first == all.end()) return;
  if (std::all_of(all.begin(), all.end(), failed)) result_of(*first);
  result_of((*first)[0] + ("rank " + std::to_string(first - all.begin()) + ": ") +
            first->substr(1));
}

void Ticks::working() {
  if (Clock::now() - last_ >= kTick) anybody_works(true);
}

void Ticks::finish(const std::function<bool(std::chrono::milliseconds patience)>& busy) {
  while (anybody_works(busy(kTick))) {
  }
}

bool Ticks::anybody_works(bool this_rank) {
  ranks_[0] = this_rank ? 1 : 0;
  if (communicator_.size() > 1)
    communicator_.allreduce(comm::buffer_of(ranks_), comm::ReduceOp::sum);
  last_ = Clock::now();
  return ranks_[0] > 0;
}

}  // namespace convoy::train
