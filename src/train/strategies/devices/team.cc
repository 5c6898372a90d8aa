#include "train/strategies/devices/team.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "convoy/base/error.h"
#include "convoy/parallel/gradient_reducer.h"

namespace convoy::train {
namespace {

// What somebody reads of an exception, without LibTorch's stack.
std::string text_of_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return message_of(e);
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

bool is_of_another(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const parallel::OtherSourceEnded&) {
    return true;
  } catch (...) {
    return false;
  }
}

// Whether several devices may say the same of something that is no device's own, and then do.
bool is_said_alike(const std::exception_ptr& one, const std::exception_ptr& other) {
  if (one == other) return true;
  for (const std::exception_ptr& error : {one, other}) {
    try {
      std::rethrow_exception(error);
    } catch (const UsageError&) {
    } catch (const Failure&) {
    } catch (...) {
      return false;  // memory, say, that is out on each
    }
  }
  return text_of_error(one) == text_of_error(other);
}

// LibTorch's allocator of the host's memory has no type of its own for that.
bool says_out_of_memory(const std::string& text) {
  return text.find("DefaultCPUAllocator: can't allocate memory") != std::string::npos ||
         text.find("DefaultCPUAllocator: not enough memory") != std::string::npos;
}

constexpr const char* kWhatWouldFit =
    " (what fits is a smaller part of the batch: raise training.accumulate, or lower "
    "training.batch)";

[[noreturn]] void rethrow_named(const std::string& device, const std::exception_ptr& error) {
  const std::string text = text_of_error(error);
  try {
    std::rethrow_exception(error);
  } catch (const UsageError&) {
    throw UsageError(device + ": " + text);
  } catch (const c10::OutOfMemoryError&) {
    throw Failure(device + " is out of memory" + kWhatWouldFit + ": " + text);
  } catch (const std::bad_alloc&) {
    throw Failure(device + " is out of memory" + kWhatWouldFit);
  } catch (...) {
    if (says_out_of_memory(text))
      throw Failure(device + " is out of memory" + kWhatWouldFit + ": " + text);
    throw Failure(device + ": " + text);
  }
}

// LibTorch sets a thread's number to that of the process where the thread first computes, once for
// itself and once for what is inlined here: that comes first.
void set_own_threads(int threads) {
  at::internal::lazy_init_num_threads();
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
}

// While it lives, the end of an Autocast of this thread leaves the cache alone, which is one for
// all threads: another device may be about to use what it has there.
class KeepsCasts {
 public:
  KeepsCasts() { at::autocast::increment_nesting(); }
  ~KeepsCasts() { at::autocast::decrement_nesting(); }
  KeepsCasts(const KeepsCasts&) = delete;
  KeepsCasts& operator=(const KeepsCasts&) = delete;
};

}  // namespace

Team::Team(std::size_t devices, int threads, int rank)
    : threads_(threads), rank_(rank), devices_(devices), running_(devices) {
  const int before = at::get_num_threads();
  for (std::size_t device = 0; device < devices; ++device) {
    try {
      devices_[device].thread = std::thread([this, device] { work(device); });
    } catch (const std::system_error& e) {
      end();
      throw Failure(name_of(device) + " gets no thread (" + e.what() +
                    "): raise the limit of threads (ulimit -u), or lower sync.devices");
    }
  }
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
  }
  // What they have set is also what LibTorch gives to threads that come later.
  at::set_num_threads(before);
}

Team::~Team() { end(); }

void Team::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (Device& device : devices_) {
    if (device.thread.joinable()) device.thread.join();
  }
}

std::string Team::name_of(std::size_t device) const {
  return "device " + std::to_string(device) + " of rank " + std::to_string(rank_);
}

void Team::work(std::size_t device) {
  const KeepsCasts keeps_casts;
  std::unique_lock lock(mutex_);
  set_own_threads(threads_);
  std::uint64_t done = 0;
  if (--running_ == 0) changed_.notify_all();
  while (true) {
    changed_.wait(lock, [&] { return over_ || jobs_ != done; });
    if (over_) return;
    done = jobs_;
    const Job& job = *job_;
    lock.unlock();
    std::exception_ptr error;
    try {
      set_own_threads(threads_);
      job(device);
    } catch (...) {
      error = std::current_exception();
    }
    if (error && !is_of_another(error)) fail(name_of(device) + ": " + text_of_error(error));
    const auto now = Clock::now();
    lock.lock();
    devices_[device].error = error;
    devices_[device].ended = now;
    if (--running_ == 0) changed_.notify_all();
  }
}

void Team::run(const Job& job, const std::function<void()>& meanwhile) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    ++jobs_;
    running_ = devices_.size();
  }
  changed_.notify_all();
  std::exception_ptr own;
  try {
    if (meanwhile) meanwhile();
  } catch (...) {
    own = std::current_exception();
    fail("rank " + std::to_string(rank_) + ": " + text_of_error(own));
  }
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
    job_ = nullptr;
  }
  Clock::time_point last = devices_.front().ended;
  for (const Device& device : devices_) last = std::max(last, device.ended);
  ++counts_.hand_overs;
  for (const Device& device : devices_)
    counts_.wait_s += std::chrono::duration<double>(last - device.ended).count();
  if (own) std::rethrow_exception(own);
  throw_first();
}

void Team::run_on_first(const std::function<void()>& job) {
  run([&job](std::size_t device) {
    if (device == 0) job();
  });
}

Team::Counts Team::take_counts() {
  const Counts counts = counts_;
  counts_ = {};
  return counts;
}

// What all of them say alike is of no device's own: another rank has died, say.
void Team::throw_first() const {
  const Device* first = nullptr;
  bool alike = devices_.size() > 1;
  for (const Device& device : devices_) {
    if (!device.error) {
      alike = false;
      continue;
    }
    alike = alike && is_said_alike(devices_.front().error, device.error);
    if (first == nullptr || (is_of_another(first->error) && !is_of_another(device.error)))
      first = &device;
  }
  if (first == nullptr) return;
  if (alike) std::rethrow_exception(first->error);
  rethrow_named(name_of(static_cast<std::size_t>(first - devices_.data())), first->error);
}

}  // namespace convoy::train
