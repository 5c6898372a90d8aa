// Worlds of ranks as threads whose time passes with what happens, not with a clock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "comm/engine/own_time.h"
#include "comm/engine/stall_detector.h"
#include "convoy/comm/threads.h"
#include "convoy/comm/world.h"
#include "tests/base/patience.h"
#include "tests/comm/wrapped_transport.h"

namespace convoy::comm {

// Each rank has a time of its own, in which it waits for its peers. It begins when all have called
// begin(), and goes on by 20 ms whenever the rank looks what time it is.
class RanksInTime {
 public:
  // Rank `answering` always answers in time: the time of who has asked it stands until it has.
  explicit RanksInTime(std::size_t ranks, std::optional<int> answering = {})
      : answering_(answering), ranks_(ranks) {}

  // As World::run_threads(); to be called once.
  void run(const std::function<void(World&)>& body, const WorldOptions& options = {}) {
    std::mutex mutex;
    std::exception_ptr first;
    std::vector<std::thread> threads;
    int rank = 0;
    for (auto& transport : thread_transports(static_cast<int>(ranks_.size()))) {
      threads.emplace_back(
          [&, own = std::make_unique<InTime>(std::move(transport), *this, rank)]() mutable {
            try {
              World world(std::move(own), options);
              body(world);
              world.close();
            } catch (...) {
              const std::lock_guard lock(mutex);
              if (!first) first = std::current_exception();
            }
          });
      ++rank;
    }
    for (std::thread& thread : threads) thread.join();
    if (first) std::rethrow_exception(first);
  }

  // Once on each rank, when what takes no time (setting up) is over.
  void begin() { ++begun_; }
  // As if all processes had been stopped for so long.
  void stop_for(std::chrono::milliseconds time) {
    for (Rank& rank : ranks_) rank.milliseconds += time.count();
  }
  // Until others have asked the rank so often what it does.
  bool wait_asked(int rank, int times) const {
    const auto until = Clock::now() + test::patience();
    while (of(rank).asked < times && Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return of(rank).asked >= times;
  }

 private:
  struct Rank {
    std::atomic<std::int64_t> milliseconds = 0;
    std::atomic<int> asked = 0;       // how often
    std::atomic<int> unanswered = 0;  // its questions to the rank that always answers
    std::atomic<bool> told = false;   // that the world has failed
  };

  class InTime : public WrappedTransport, public OwnTime {
   public:
    InTime(std::unique_ptr<Transport> inner, RanksInTime& all, int rank)
        : WrappedTransport(std::move(inner), {}), all_(all), rank_(rank) {}
    Clock::time_point now() override { return all_.look(rank_); }
    void post_note(int to, std::span<const std::byte> note) override {
      // A question is counted before it can be answered.
      const auto kind = static_cast<NoteKind>(note[0]);
      if (kind == NoteKind::question) all_.asks(rank_, to);
      WrappedTransport::post_note(to, note);
      if (kind == NoteKind::answer && rank_ == all_.answering_) --all_.of(to).unanswered;
      if (kind == NoteKind::failure) all_.of(to).told = true;
    }

   private:
    RanksInTime& all_;
    const int rank_;
  };

  Rank& of(int rank) { return ranks_.at(static_cast<std::size_t>(rank)); }
  const Rank& of(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)); }

  void asks(int from, int to) {
    if (to == answering_) ++of(from).unanswered;
    ++of(to).asked;
  }
  Clock::time_point look(int rank) {
    constexpr std::int64_t kStep = 20;
    Rank& own = of(rank);
    const bool begun = begun_ >= static_cast<int>(ranks_.size());
    // In a world that has failed nobody answers.
    const bool stands = own.unanswered > 0 && !own.told;
    if (begun && !stands) own.milliseconds += kStep;
    return Clock::time_point(std::chrono::milliseconds(own.milliseconds));
  }

  const std::optional<int> answering_;
  std::vector<Rank> ranks_;
  std::atomic<int> begun_ = 0;
};

}  // namespace convoy::comm
