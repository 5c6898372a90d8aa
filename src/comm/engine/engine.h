// Advances the operations of one rank.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "comm/collectives/allreduce/selection.h"
#include "comm/engine/call.h"
#include "comm/engine/operation_state.h"
#include "comm/engine/stall_detector.h"
#include "convoy/base/error.h"
#include "convoy/comm/transport.h"

namespace convoy::comm {

// The engine of one rank: its operations in flight, whoever advances them, and the watch over them.
// One lock serializes all use of the transports.
class Engine : public std::enable_shared_from_this<Engine> {
 public:
  struct Options {
    std::chrono::duration<double> timeout{300};
    bool progress_thread = false;
    bool check_calls = false;
    // Inside a program that takes this engine for MPI: operations wait for their peers as long as
    // it takes, no notes are sent, and whoever waits lets MPI work on the program's own messages.
    bool guest = false;
  };

  Engine(std::shared_ptr<Transport> root, Options options);
  ~Engine();

  // What an operation moves data by. Ranks find each other's operations in memory by numbers that
  // count the calls of a match; messages of two operations of one match can't be told apart.
  enum class By { messages, memory };

  // Starts `body` as an operation; what can be done at once is done at once. The task is made under
  // the lock because it posts its first messages; it may refer to what `medium` holds. While an
  // operation of the same match is under way by messages this one waits for its turn: `body`, of
  // which the operation keeps a copy, is called when that is done.
  std::shared_ptr<OperationState> start(Medium medium, Call call,
                                        const std::function<Task(Io&)>& body, By by = By::messages);

  // One pass over what is in flight, if nobody else is at it. True if anything moved.
  bool advance();
  // Blocks until the operation is done. Throws what Operation::wait says.
  void wait(OperationState& op);
  // One look at an operation, which counts as waiting for it; throws its error.
  bool done(OperationState& op);
  // Gives up an operation that may be under way: unless it ends at once, the world has failed.
  void cancel(OperationState& op);

  // Runs `use` with the transports to itself.
  template <class F>
  auto exclusively(F&& use) {
    const std::lock_guard lock(mutex_);
    free_retired();
    return use();
  }
  // Takes over a transport of a part of the world. Whichever thread gives it up last, it is freed
  // while nobody else uses a transport: at the next call that uses them, or with the engine.
  std::shared_ptr<Transport> keep(std::unique_ptr<Transport> transport);

  // Whether operations are in flight.
  bool busy() const { return flying_ > 0; }
  // Seconds in which there were some, so far.
  double busy_seconds();
  // Before a call that does not go through here: throws Failure if the world has failed, and notes
  // the call. Runs `use` in the order of calls.
  template <class F>
  auto pass_by(const Call& call, F&& use) {
    const std::lock_guard lock(mutex_);
    if (!failed_.empty()) throw Failure(failed_);
    remember(call);
    return use();
  }

  // Waits for all peers to get here as well. Throws Failure if a peer waits for an operation that
  // this rank never started.
  void close(Call call, const std::function<Task(Io&)>& barrier);
  // Declares the world failed, to this rank's operations and to all peers. `aloud`: and says so on
  // standard error.
  void give_up(const std::string& reason, bool aloud = true);
  // Says, for a rank that starts no operation any more, whether a peer waits for its part of one,
  // and not just for what is on its way. Asks for up to `patience`; returns early where the world
  // has failed.
  bool is_awaited(Clock::duration patience);
  // Stops the progress thread without waiting for anybody.
  void stop();

  // While the world is being made, before anybody else uses the engine.
  void set_hosts(std::vector<std::string> hosts);
  void set_selection(AllreduceSelection selection) { selection_ = std::move(selection); }
  const AllreduceSelection& selection() const { return selection_; }
  void set_reproducible(bool on) { reproducible_ = on; }
  bool reproducible() const { return reproducible_; }
  // Whether this rank has less than a core to itself.
  void set_crowded(bool crowded) { crowded_ = crowded; }
  bool crowded() const { return crowded_; }
  // The hosts of the ranks of a group.
  std::vector<std::string> hosts_of(const Transport& group) const;
  // Why the world has failed; empty while it has not.
  std::string failure();

  Transport& root() { return *root_; }
  const Options& options() const { return options_; }

 private:
  // All under the lock.
  bool pass();
  bool advance_operation(OperationState& op);
  void begin(OperationState& op, const std::function<Task(Io&)>& body);
  void clear_done();
  void note_in_flight();
  void free_retired();
  void finish(OperationState& op, std::exception_ptr error);
  enum class Announce { no, to_peers, aloud };
  void fail(const std::string& reason, Announce announce);
  std::optional<std::string> announced_reason(bool withdrawn);
  void detect_stall(OperationState& op, Clock::duration longest_gap);
  StallDetector::Doing doing() const;

  void remember(const Call& call) {
    last_finished_ = call;
    last_finished_at_ = Clock::now();
  }

  void run_thread();

  const std::shared_ptr<Transport> root_;
  const Options options_;
  AllreduceSelection selection_;
  bool reproducible_ = false;
  bool crowded_ = false;
  std::vector<std::string> hosts_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<OperationState>> in_flight_;
  // The last one in flight for each transport and match, of collectives (-1) or of messages to or
  // from a peer.
  using Place = std::tuple<const Transport*, std::uint16_t, std::uint16_t, int>;
  static Place place_of(const OperationState& op);
  std::map<Place, std::shared_ptr<OperationState>> last_;
  double busy_seconds_ = 0;  // until there were none the last time
  Clock::time_point busy_since_;
  StallDetector stalls_;
  std::string failed_;
  bool closing_ = false;
  std::optional<Call> last_finished_;
  Clock::time_point last_finished_at_ = Clock::now();

  std::mutex retired_mutex_;  // for whoever may have the other lock or not
  std::vector<std::unique_ptr<Transport>> retired_;
  std::atomic<bool> any_retired_ = false;

  std::atomic<std::size_t> flying_ = 0;  // in_flight_.size(), readable without the lock
  std::atomic<int> waiters_ =
      0;  // threads inside wait(): the progress thread leaves the work to them
  std::condition_variable_any wake_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace convoy::comm
