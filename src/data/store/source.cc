#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/data/store_source.h"
#include "data/store/order.h"

namespace convoy::data {
namespace {

constexpr std::uint64_t kOfDraws = 0x6472617773;

std::uint64_t count_up(std::uint64_t n) {
  return n == std::numeric_limits<std::uint64_t>::max() ? n : n + 1;
}

// What a rank gets of the order that the store is arranged in. The loader's workers ask, while the
// caller of next() sets or clears it: only when nothing is ready(), or none of them asks, may that
// be.
class PartOrder final : public SampleOrder {
 public:
  PartOrder(std::size_t count, int rank, int world, int members, std::uint64_t seed, bool draws)
      : count_(count),
        rank_(static_cast<std::size_t>(rank)),
        world_(static_cast<std::size_t>(world)),
        members_(static_cast<std::size_t>(members)),
        seed_(seed),
        draws_(draws) {}

  // Batches of this epoch up to this position may be prepared.
  void set(std::uint64_t epoch, std::size_t end, std::vector<std::size_t> order) {
    const std::lock_guard lock(mutex_);
    epoch_ = epoch;
    end_ = end;
    order_ = std::move(order);
  }
  // None may. The order is gone: the next one is made in its place.
  void clear() {
    const std::lock_guard lock(mutex_);
    end_ = 0;
    order_ = std::vector<std::size_t>();  // which frees it; = {} would not
  }

  std::size_t largest_share(std::size_t batch) const override {
    return (std::min(batch, count_) + world_ - 1) / world_;
  }
  bool ready(std::uint64_t epoch, std::size_t position) const override {
    const std::lock_guard lock(mutex_);
    return epoch == epoch_ && position < end_;
  }
  void append_share(std::uint64_t epoch, Range batch, std::vector<std::size_t>& samples) override {
    const std::lock_guard lock(mutex_);
    const std::size_t first = batch.begin + (rank_ + world_ - batch.begin % world_) % world_;
    for (std::size_t p = first; p < batch.end; p += world_)
      samples.push_back(order_[draws_ ? draw(epoch, p) : p]);
  }

 private:
  // The position of a sample of this member.
  std::size_t draw(std::uint64_t epoch, std::size_t position) const {
    const std::size_t member = position % members_;
    const std::size_t held = (count_ - member - 1) / members_ + 1;
    return member + members_ * RandomStream(seed_ ^ kOfDraws, epoch, position).below(held);
  }

  std::size_t count_, rank_, world_, members_;
  std::uint64_t seed_;
  bool draws_;
  mutable std::mutex mutex_;  // of what follows
  std::uint64_t epoch_ = 0;
  std::size_t end_ = 0;
  std::vector<std::size_t> order_;
};

LoaderOptions with_order(LoaderOptions options, std::shared_ptr<SampleOrder> order) {
  options.order = std::move(order);
  return options;
}

// The place in an epoch, as a Loader says it.
Position place_of(const Position& position) {
  Position place{position.epoch, 0, {}};
  if (position.count() > 0) place.consumed.push_back({0, position.count()});
  return place;
}

void check_store(const Store* store, const LoaderOptions& options) {
  if (store == nullptr) throw UsageError("there is no store");
  const int members = store->members();
  if (options.world != members * store->groups() || options.rank % members != store->member()) {
    throw UsageError("rank " + std::to_string(options.rank) + " of " +
                     std::to_string(options.world) + " can't use a store of " +
                     std::to_string(store->groups()) + " groups of " + std::to_string(members) +
                     " as member " + std::to_string(store->member()));
  }
}

}  // namespace

struct StoreSource::Impl {
  Impl(std::shared_ptr<Store> the_store, const TransformOptions& transform,
       const LoaderOptions& loader_options, const ShuffleOptions& shuffle_options)
      : store((check_store(the_store.get(), loader_options), std::move(the_store))),
        options(loader_options),
        shuffle(shuffle_options),
        order(std::make_shared<PartOrder>(store->size(), options.rank, options.world,
                                          store->members(), options.seed, shuffle.random_batches)),
        loader(store, transform, with_order(options, order)) {}

  EpochCursor cursor() const { return {store->size(), at.count(), 0, 1, options.drop_last}; }
  bool epoch_over() const { return cursor().steps_left(options.batch) == 0; }
  // Batches of the epoch so far.
  std::uint64_t batches() const {
    return loader.batches_per_epoch() - cursor().steps_left(options.batch);
  }
  std::uint64_t steps() const { return at.epoch * loader.batches_per_epoch() + batches(); }

  bool shuffle_due() const;
  std::size_t next_shuffle() const;
  void arrange();

  std::shared_ptr<Store> store;
  LoaderOptions options;
  ShuffleOptions shuffle;
  std::shared_ptr<PartOrder> order;
  Loader loader;
  Position at;  // without shuffles that are due, but not done
  bool arranged = false;
  std::size_t end = 0;  // of what may be used before the next shuffle
  ShuffleReport report;
};

// At this position, before the next batch.
bool StoreSource::Impl::shuffle_due() const {
  if (at.epoch == 0 && at.count() == 0) return false;
  const bool by_steps = shuffle.every_steps > 0 && steps() % shuffle.every_steps == 0;
  if (at.count() > 0) return by_steps && !at.consumed.back().empty();
  return by_steps || (shuffle.every_epochs > 0 && at.epoch % shuffle.every_epochs == 0);
}

// Where the next shuffle in this epoch comes, after this position; or the epoch's end.
std::size_t StoreSource::Impl::next_shuffle() const {
  if (shuffle.every_steps == 0) return store->size();
  const std::uint64_t left = shuffle.every_steps - steps() % shuffle.every_steps;
  if (left >= loader.batches_per_epoch() - batches()) return store->size();
  return at.count() + left * options.batch;
}

// Brings the records, and the order, to where the next batch needs them.
void StoreSource::Impl::arrange() {
  loader.seek(place_of(at));  // workers don't read, nor ask for samples, any more
  order->clear();
  if (shuffle_due()) {
    if (at.count() == 0) {
      // Of the number of the epoch, where each has its own, whatever came before.
      const std::uint64_t number = shuffle.every_epochs == 1 ? at.epoch : 0;
      at.generation = std::max(count_up(at.generation), number);
      at.members = 0;
    } else {
      at.generation = count_up(at.generation);
      at.consumed.push_back({at.count(), at.count()});
    }
  } else if (at.count() == 0 && at.epoch > 0) {
    at.members = static_cast<std::uint64_t>(store->members());
  }
  std::vector<std::size_t> samples = store_order(store->size(), options.seed, at);
  const ShuffleReport moved = store->arrange(samples);
  if (moved.rounds > 0) report = moved;
  end = next_shuffle();
  order->set(at.epoch, end, std::move(samples));
  arranged = true;
}

StoreSource::StoreSource(std::shared_ptr<Store> store, const TransformOptions& transform,
                         const LoaderOptions& options, const ShuffleOptions& shuffle)
    : impl_(std::make_unique<Impl>(std::move(store), transform, options, shuffle)) {}
StoreSource::~StoreSource() = default;

std::size_t StoreSource::size() const { return impl_->store->size(); }
std::size_t StoreSource::batches_per_epoch() const { return impl_->loader.batches_per_epoch(); }
std::size_t StoreSource::batches_left() const {
  return impl_->cursor().steps_left(impl_->options.batch);
}
Shape StoreSource::shape() const { return impl_->loader.shape(); }

void StoreSource::seek(const Position& position) {
  Position from = position;
  const bool of_files = from.generation == 0 && from.members == 0 && from.consumed.size() == 1;
  if (of_files) from.generation = from.epoch;
  check_position(size(), from);
  // In this order: workers that ask what comes next may be in the middle of it.
  impl_->loader.seek(place_of(from));
  impl_->order->clear();
  impl_->at = std::move(from);
  impl_->arranged = false;
}

const Batch* StoreSource::next() {
  Impl& my = *impl_;
  if (!my.epoch_over() && (!my.arranged || my.at.count() >= my.end)) my.arrange();
  const Batch* batch = my.loader.next();
  const Position place = my.loader.position();
  if (batch == nullptr) {
    my.at.epoch = place.epoch;
    my.at.consumed.clear();
    my.arranged = false;
    return nullptr;
  }
  if (my.at.consumed.empty()) my.at.consumed.push_back({0, 0});
  my.at.consumed.back().end = place.count();
  return batch;
}

// What next() arranges first is another order.
const Batch* StoreSource::upcoming() {
  Impl& my = *impl_;
  const bool arranges = !my.epoch_over() && (!my.arranged || my.at.count() >= my.end);
  return arranges ? nullptr : my.loader.upcoming();
}

Position StoreSource::position() const { return impl_->at; }
bool StoreSource::epoch_over() const { return impl_->epoch_over(); }
SourceStatistics StoreSource::statistics() const { return impl_->loader.statistics(); }
const ShuffleReport& StoreSource::last_shuffle() const { return impl_->report; }

}  // namespace convoy::data
