#include "convoy/comm/threads.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

struct Receive {
  std::span<std::byte> data;
  std::size_t sent = 0;  // bytes that the sender had; differs from data.size() in an error
  bool done = false;
};

// What has been sent to one rank and not received, and what it has asked for and not got.
struct Mailbox {
  struct Line {
    std::deque<std::vector<std::byte>> arrived;
    std::deque<Receive*> wanted;
  };
  std::mutex mutex;
  std::map<std::pair<int, std::uint32_t>, Line> lines;  // by (sender, tag)
  std::deque<std::pair<int, std::vector<std::byte>>> notes;
};

// Shared by all threads, and by all groups split from the first: carries the failure.
struct Fate {
  std::mutex mutex;
  std::string reason;
  std::atomic<bool> failed = false;
};

struct Hub {
  Hub(int size, std::shared_ptr<Fate> fate)
      : fate(std::move(fate)), boxes(static_cast<std::size_t>(size)) {}

  std::shared_ptr<Fate> fate;
  std::vector<Mailbox> boxes;

  // A collective of all ranks, for split().
  std::mutex mutex;
  std::condition_variable met;
  std::map<int, std::pair<int, int>> colors;  // rank -> (color, key)
  std::map<int, std::shared_ptr<Hub>> groups;
  std::map<int, int> group_ranks;
  int leaving = 0;
};

class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, int rank, std::vector<int> world_ranks)
      : hub_(std::move(hub)), rank_(rank), world_ranks_(std::move(world_ranks)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_->boxes.size()); }
  int world_rank(int rank) const override { return world_ranks_[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<Transport> split(int color, int key) override;

  void post_note(int to, std::span<const std::byte> note) override {
    Mailbox& box = hub_->boxes[static_cast<std::size_t>(to)];
    const std::lock_guard lock(box.mutex);
    box.notes.emplace_back(rank_, std::vector<std::byte>(note.begin(), note.end()));
  }

  std::optional<std::pair<int, std::vector<std::byte>>> poll_note() override {
    Mailbox& box = own_box();
    const std::lock_guard lock(box.mutex);
    if (box.notes.empty()) return std::nullopt;
    auto note = std::move(box.notes.front());
    box.notes.pop_front();
    return note;
  }

  void abort(const std::string& reason) noexcept override {
    const std::lock_guard lock(hub_->fate->mutex);
    if (!hub_->fate->failed) {
      hub_->fate->reason = reason;
      hub_->fate->failed = true;
    }
  }

  bool abort_ends_process() const override { return false; }

 protected:
  void* start_send(int to, std::uint32_t tag, std::span<const std::byte> data) override {
    Mailbox& box = hub_->boxes[static_cast<std::size_t>(to)];
    const std::lock_guard lock(box.mutex);
    auto& line = box.lines[{rank_, tag}];
    if (line.wanted.empty()) {
      line.arrived.emplace_back(data.begin(), data.end());
    } else {
      deliver(*line.wanted.front(), data);
      line.wanted.pop_front();
      if (line.wanted.empty()) box.lines.erase({rank_, tag});
    }
    return nullptr;
  }

  void* start_receive(int from, std::uint32_t tag, std::span<std::byte> data) override {
    auto receive = std::make_unique<Receive>(Receive{data});
    Mailbox& box = own_box();
    const std::lock_guard lock(box.mutex);
    auto& line = box.lines[{from, tag}];
    if (line.arrived.empty()) {
      line.wanted.push_back(receive.get());
    } else {
      deliver(*receive, line.arrived.front());
      line.arrived.pop_front();
      if (line.arrived.empty()) box.lines.erase({from, tag});
    }
    return receive.release();
  }

  bool poll(void* request) override {
    auto* receive = static_cast<Receive*>(request);
    {
      const std::lock_guard lock(own_box().mutex);
      if (!receive->done) {
        if (!hub_->fate->failed) return false;
        remove(receive);
      }
    }
    const std::unique_ptr<Receive> owner(receive);
    if (!owner->done) {
      const std::lock_guard lock(hub_->fate->mutex);
      throw Failure(hub_->fate->reason);
    }
    if (owner->sent != owner->data.size()) {
      throw Failure("a message of " + std::to_string(owner->sent) + " bytes arrived where " +
                    std::to_string(owner->data.size()) + " were expected");
    }
    return true;
  }

  void cancel(void* request) noexcept override {
    auto* receive = static_cast<Receive*>(request);
    const std::lock_guard lock(own_box().mutex);
    remove(receive);
    delete receive;
  }

 private:
  Mailbox& own_box() { return hub_->boxes[static_cast<std::size_t>(rank_)]; }

  static void deliver(Receive& receive, std::span<const std::byte> data) {
    const std::size_t fits = std::min(data.size(), receive.data.size());
    if (fits > 0) std::memcpy(receive.data.data(), data.data(), fits);
    receive.sent = data.size();
    receive.done = true;
  }

  void remove(Receive* receive) {
    for (auto& [key, line] : own_box().lines) std::erase(line.wanted, receive);
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  std::vector<int> world_ranks_;
};

// The last rank to arrive makes the groups; the last to leave clears the table for the next
// collective.
std::unique_ptr<Transport> ThreadTransport::split(int color, int key) {
  Hub& hub = *hub_;
  std::unique_lock lock(hub.mutex);
  hub.met.wait(lock, [&] { return hub.leaving == 0; });
  hub.colors[rank_] = {color, key};
  if (static_cast<int>(hub.colors.size()) == size()) {
    std::map<int, std::vector<std::pair<int, int>>> members;  // color -> (key, rank)
    for (const auto& [rank, choice] : hub.colors)
      members[choice.first].emplace_back(choice.second, rank);
    for (auto& [group, list] : members) {
      if (group < 0) continue;
      std::sort(list.begin(), list.end());
      hub.groups[group] = std::make_shared<Hub>(static_cast<int>(list.size()), hub.fate);
      for (std::size_t i = 0; i < list.size(); ++i)
        hub.group_ranks[list[i].second] = static_cast<int>(i);
    }
    hub.leaving = size();
    hub.met.notify_all();
  } else {
    while (hub.leaving == 0) {
      hub.met.wait_for(lock, std::chrono::milliseconds(50));
      if (hub.fate->failed)
        throw Failure("the world failed while rank " + std::to_string(rank_) + " waited in split");
    }
  }
  std::unique_ptr<Transport> result;
  if (color >= 0) {
    std::vector<int> world_ranks(hub.groups[color]->boxes.size());
    for (const auto& [rank, choice] : hub.colors) {
      if (choice.first == color)
        world_ranks[static_cast<std::size_t>(hub.group_ranks[rank])] = world_rank(rank);
    }
    result = std::make_unique<ThreadTransport>(hub.groups[color], hub.group_ranks[rank_],
                                               std::move(world_ranks));
  }
  if (--hub.leaving == 0) {
    hub.colors.clear();
    hub.groups.clear();
    hub.group_ranks.clear();
    hub.met.notify_all();
  }
  return result;
}

}  // namespace

std::vector<std::unique_ptr<Transport>> thread_transports(int ranks) {
  const auto hub = std::make_shared<Hub>(ranks, std::make_shared<Fate>());
  std::vector<int> identity(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) identity[static_cast<std::size_t>(rank)] = rank;
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_unique<ThreadTransport>(hub, rank, identity));
  return transports;
}

}  // namespace convoy::comm
