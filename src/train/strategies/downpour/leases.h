// Asks a coordinator for portions of samples, ahead of need.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "convoy/train/parameter_service.h"

namespace convoy::train {

// On the first rank of a replica: everything but fetches and pushes is asked by a thread of this
// object, so that a coordinator which is away for a while holds up nobody who has samples left.
// Functions are one thread's.
class Leases {
 public:
  // `ahead`: one portion is asked for before the one at hand is used up.
  Leases(ParameterService& service, bool ahead);
  ~Leases();  // waits for the call under way
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // Portions of which servers have everything, to be told with the next question.
  void finished(const std::vector<std::uint64_t>& portions);
  // Told now and then.
  void report(const server::ReplicaReport& more);

  struct Answer {
    enum class Kind : std::uint8_t { portion, none_yet, finished };
    Kind kind = Kind::none_yet;
    server::Portion portion;
  };
  // The next portion, if there is one by now; else asks for one, and waits for up to
  // `milliseconds`. finished: nothing is left to do. Throws what asking has thrown.
  Answer take(std::uint64_t milliseconds);
  // Asks nothing more, and tells the rest: what is finished stays with whoever asked last.
  void stop();

 private:
  void run();
  void ask(std::unique_lock<std::mutex>& lock);

  ParameterService& service_;
  bool ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<server::Portion> stock_;
  std::vector<std::uint64_t> finished_;
  std::optional<server::ReplicaReport> report_;
  bool wanted_ = true;  // another portion
  bool all_done_ = false;
  bool told_ = false;  // something is finished since the last question
  bool ending_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace convoy::train
