#include "data/pack/pipeline.h"

#include <new>
#include <system_error>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

// Converted images that wait for their turn, for each thread.
constexpr std::size_t kWaiting = 4;

}  // namespace

PackPipeline::PackPipeline(PackSource& source, Converter& converter,
                           const std::vector<std::size_t>& order, std::size_t begin, int threads)
    : source_(source),
      converter_(converter),
      order_(order),
      next_(begin),
      taken_(begin),
      slots_(static_cast<std::size_t>(threads) * kWaiting) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop();
    throw Failure("pack: starting " + std::to_string(threads) + " threads: " + error.what());
  }
}

PackPipeline::~PackPipeline() { stop(); }

void PackPipeline::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

PackPipeline::Result PackPipeline::take() {
  std::unique_lock lock(mutex_);
  Result& slot = slots_[taken_ % slots_.size()];
  changed_.wait(lock, [&slot] { return slot.ready; });
  Result result = std::exchange(slot, {});
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  if (result.error) std::rethrow_exception(result.error);
  return result;
}

void PackPipeline::work() {
  std::vector<std::byte> scratch;
  while (true) {
    // Whoever has the turn reads; the others convert what they have read.
    std::unique_lock turn(source_mutex_, std::defer_lock);
    if (!source_.any_order()) turn.lock();
    std::size_t position;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] {
        return stopping_ || next_ == order_.size() || next_ < taken_ + slots_.size();
      });
      if (stopping_ || next_ == order_.size()) return;
      position = next_++;
    }
    Result result = make(order_[position], scratch, turn);
    {
      const std::lock_guard lock(mutex_);
      slots_[position % slots_.size()] = std::move(result);
    }
    changed_.notify_all();
  }
}

PackPipeline::Result PackPipeline::make(std::size_t i, std::vector<std::byte>& scratch,
                                        std::unique_lock<std::mutex>& turn) {
  Result result;
  result.ready = true;
  const SourceImage& image = source_.images()[i];
  result.problem = image.problem;
  if (image.size > kLargestImage) result.problem = "it has more than 1 GiB";
  if (!result.problem.empty()) return result;
  try {
    const Record record = source_.read(i, scratch);
    if (turn.owns_lock()) turn.unlock();
    try {
      result.image = converter_.convert(record);
    } catch (const UsageError& error) {
      result.problem = error.what();
    }
  } catch (const UnreadableImage& error) {
    result.problem = error.what();
  } catch (const std::bad_alloc&) {
    result.problem = "there is no memory for it on this host";
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

}  // namespace convoy::data
