#include "server/coordinator/store_thread.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace convoy::server::coordinator {
namespace {

using namespace std::chrono_literals;
constexpr auto kSettle = 100ms;
constexpr auto kRetry = 200ms;
// etcd takes 1.5 MiB in a request; what belongs together and can't be larger goes in one.
constexpr std::size_t kMostJoined = std::size_t{512} << 10;
constexpr std::size_t kMostBytesAtOnce = std::size_t{1280} << 10;

std::size_t size_of(const Write& write) {
  return write.key.size() + (write.value ? write.value->size() : 0);
}
std::size_t size_of(const StoreWrites& writes) {
  std::size_t size = 0;
  for (const Write& write : writes.writes) size += size_of(write);
  return size;
}

// Adds the later writes where all of them still go in one step. They belong together, each list for
// itself.
bool join(StoreWrites& to, const StoreWrites& later) {
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < to.writes.size(); ++i) places.emplace(to.writes[i].key, i);
  std::size_t more = 0;
  for (const Write& write : later.writes) more += places.contains(write.key) ? 0 : 1;
  if (to.writes.size() + more > StateStore::kMaxWrites) return false;
  if (size_of(to) + size_of(later) > kMostJoined) return false;
  for (const Write& write : later.writes) {
    const auto [place, is_new] = places.emplace(write.key, to.writes.size());
    if (is_new) {
      to.writes.push_back(write);
    } else {
      to.writes[place->second] = write;
    }
  }
  to.ticket = later.ticket;
  to.survives = std::max(to.survives, later.survives);
  return true;
}

}  // namespace

StoreThread::StoreThread(StateStore& store, std::uint64_t term, Stored stored, Ended ended,
                         convoy::Log log)
    : store_(store),
      term_(term),
      stored_(std::move(stored)),
      ended_(std::move(ended)),
      log_(std::move(log)),
      settle_at_(Clock::now() + kSettle),
      thread_([this] { loop(); }) {}

StoreThread::~StoreThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StoreThread::write(StoreWrites writes) {
  const std::lock_guard lock(mutex_);
  items_.push_back({std::move(writes), nullptr});
  changed_.notify_all();
}

void StoreThread::run(std::function<void()> what) {
  const std::lock_guard lock(mutex_);
  items_.push_back({std::nullopt, std::move(what)});
  changed_.notify_all();
}

void StoreThread::end(const Changed& why) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (std::exchange(ended_once_, true)) return;
  }
  ended_(why);
}

void StoreThread::finish(Clock::time_point deadline) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return stopping_ || (items_.empty() && !busy_); });
    stopping_ = true;
    if (ended_once_) return;
  }
  store_.settle();
}

// The next thing to do, with the writes that can go with it; nothing when it is time to settle.
std::optional<StoreThread::Item> StoreThread::next() {
  std::unique_lock lock(mutex_);
  busy_ = false;
  changed_.notify_all();
  changed_.wait_until(lock, settle_at_, [&] { return stopping_ || !items_.empty(); });
  if (stopping_ || items_.empty()) return std::nullopt;
  Item item = std::move(items_.front());
  items_.pop_front();
  while (item.writes && !items_.empty() && items_.front().writes &&
         join(*item.writes, *items_.front().writes)) {
    items_.pop_front();
  }
  busy_ = true;
  return item;
}

void StoreThread::loop() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    if (Clock::now() >= settle_at_) settle();
    const std::optional<Item> item = next();
    if (!item) continue;
    if (item->writes) {
      if (!store_writes(*item->writes)) return;
      stored_(item->writes->ticket);
    } else {
      item->what();
    }
  }
}

void StoreThread::settle() {
  settle_at_ = Clock::now() + kSettle;
  const Changed settled = store_.settle();
  if (settled.kind == Changed::Kind::broken || settled.kind == Changed::Kind::fenced) end(settled);
}

// False: this ends.
bool StoreThread::store_writes(const StoreWrites& writes) {
  bool said = false;
  for (std::size_t begin = 0; begin < writes.writes.size();) {
    std::size_t size = 0;
    for (std::size_t bytes = 0;
         size < StateStore::kMaxWrites && begin + size < writes.writes.size(); ++size) {
      bytes += size_of(writes.writes[begin + size]);
      if (size > 0 && bytes > kMostBytesAtOnce) break;
    }
    const Changed changed =
        store_.change(term_, std::span(writes.writes).subspan(begin, size), writes.survives);
    switch (changed.kind) {
      case Changed::Kind::done:
        begin += size;
        break;
      case Changed::Kind::unreached: {
        if (!std::exchange(said, true)) {
          log_.warning("the coordinator waits for its store: " + changed.problem);
        }
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kRetry, [&] { return stopping_; });
        if (stopping_) return false;
        break;
      }
      case Changed::Kind::conflict:  // nothing is expected of a key
      case Changed::Kind::fenced:
      case Changed::Kind::broken:
        end(changed);
        return false;
    }
  }
  if (said) log_.info("the coordinator's store can be written again");
  return true;
}

}  // namespace convoy::server::coordinator
