#include "train/strategies/downpour/leases.h"

#include <algorithm>
#include <chrono>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"

namespace convoy::train {
namespace {

constexpr auto kReports = std::chrono::milliseconds(500);  // between two
constexpr auto kShortestPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(1000);

}  // namespace

Leases::Leases(ParameterService& service, bool ahead)
    : service_(service), ahead_(ahead), thread_([this] { run(); }) {}

Leases::~Leases() { stop(); }

void Leases::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Leases::finished(const std::vector<std::uint64_t>& portions) {
  if (portions.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    finished_.insert(finished_.end(), portions.begin(), portions.end());
    told_ = true;
  }
  changed_.notify_all();
}

void Leases::report(const server::ReplicaReport& more) {
  const std::lock_guard lock(mutex_);
  server::ReplicaReport& sum = report_ ? *report_ : report_.emplace();
  sum.steps += more.steps;
  sum.samples += more.samples;
  sum.loss_sum += more.loss_sum;
  sum.weight += more.weight;
  sum.compute_s += more.compute_s;
  sum.fetch_wait_s += more.fetch_wait_s;
  sum.push_wait_s += more.push_wait_s;
  sum.data_wait_s += more.data_wait_s;
  sum.skipped = more.skipped;
}

Leases::Answer Leases::take(std::uint64_t milliseconds) {
  std::unique_lock lock(mutex_);
  if (stock_.empty() && !all_done_) {
    wanted_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                      [this] { return !stock_.empty() || all_done_ || error_; });
  }
  if (error_) std::rethrow_exception(error_);
  if (!stock_.empty()) {
    const server::Portion portion = stock_.front();
    stock_.pop_front();
    wanted_ = ahead_;
    changed_.notify_all();
    return {Answer::Kind::portion, portion};
  }
  return {all_done_ ? Answer::Kind::finished : Answer::Kind::none_yet, {}};
}

// What it tells is forgotten only once the coordinator knows.
void Leases::ask(std::unique_lock<std::mutex>& lock) {
  const std::vector<std::uint64_t> tell = finished_;
  told_ = false;
  lock.unlock();
  const server::Lease lease = service_.lease(tell);
  lock.lock();
  finished_.erase(finished_.begin(), finished_.begin() + static_cast<std::ptrdiff_t>(tell.size()));
  switch (lease.kind) {
    case server::Lease::Kind::portion:
      stock_.push_back(lease.portion);
      wanted_ = false;
      break;
    case server::Lease::Kind::finished:
      all_done_ = true;
      break;
    case server::Lease::Kind::wait:
      // Sooner when there is something to tell: it may be what others wait for.
      changed_.wait_for(
          lock, std::clamp<std::chrono::milliseconds>(lease.wait, kShortestPause, kLongestPause),
          [this] { return ending_ || told_; });
      break;
  }
  changed_.notify_all();
}

void Leases::run() {
  std::unique_lock lock(mutex_);
  auto reported = Clock::now();
  const auto tell = [&] {
    if (!report_) return;
    const server::ReplicaReport report = *report_;
    report_.reset();
    reported = Clock::now();
    lock.unlock();
    service_.report(report);
    lock.lock();
  };
  try {
    while (!ending_) {
      if (wanted_ && !all_done_) {
        // Who hears that all is done hears what there is to report of it no later.
        if (!finished_.empty()) tell();
        if (ending_) break;
        ask(lock);
      } else {
        changed_.wait_for(lock, kReports, [this] { return ending_ || (wanted_ && !all_done_); });
      }
      if (Clock::now() - reported >= kReports || all_done_) tell();
    }
    tell();
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

}  // namespace convoy::train
