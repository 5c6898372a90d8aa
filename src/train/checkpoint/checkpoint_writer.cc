#include "convoy/train/checkpoint_writer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/hold.h"
#include "comm/calling_threads.h"
#include "convoy/base/checksum.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "train/checkpoint/background_work.h"
#include "train/checkpoint/copy_memory.h"
#include "train/checkpoint/held_tensors.h"
#include "train/checkpoint/part_writer.h"
#include "train/checkpoint/shared_plan.h"
#include "train/checkpoint/shared_words.h"
#include "train/checkpoint/slice_reader.h"
#include "train/rank_work.h"

namespace convoy::train {
namespace {

// How often ranks that only wait for a checkpoint ask each other.
constexpr std::chrono::milliseconds kTick(5);

}  // namespace

class CheckpointWriter::Impl {
 public:
  Impl(const comm::Communicator& communicator, CheckpointFolder folder, CheckpointOptions options)
      : all_(communicator.duplicate()),
        streams_(communicator.duplicate()),
        folder_(std::move(folder)),
        options_(std::move(options)),
        any_thread_(comm::any_thread_may_call(streams_)) {}
  ~Impl() {
    // Threads of ranks that are well end by themselves.
    if (std::uncaught_exceptions() > 0) cancelled_ = true;
  }

  void reserve(const State& state);
  void begin(Manifest manifest, const State& state);
  std::optional<WrittenCheckpoint> poll();
  std::optional<WrittenCheckpoint> finish();
  bool writing() const { return flight_ != nullptr; }

 private:
  struct Flight {
    Manifest manifest;
    WrittenCheckpoint written;
    Clock::time_point began = Clock::now();
    std::optional<CheckpointDraft> draft;  // on rank 0
    std::string folder;                    // of the draft
    HeldTensors held;                      // while begin() runs
    bool committing = false;
    std::unique_ptr<PartStream> stream;      // where this rank doesn't see the folder
    std::unique_ptr<PartReceiver> receiver;  // on rank 0, where others don't
    // Threads end before what they use.
    Work part, arrivals, commit;

    bool writing() {
      const bool own = part.busy(), others = arrivals.busy();
      return own || others;
    }
  };
  enum { kWriting, kFailures, kCommitting, kTallySize };

  bool first() const { return all_.rank() == 0; }
  void make_draft(Flight& flight);
  void prepare(Flight& flight, Ticks& ticks);
  bool all_prepared(const std::string& outcome);
  void start(Flight& flight, bool somebody_holds);
  bool holds_part() const;
  bool holds_arrivals() const { return flight_->receiver != nullptr && !any_thread_; }
  void write_held(Flight& flight);
  std::vector<IncomingPart> parts_of_others() const;
  std::string write(const Flight& flight, const PartBytes& bytes, const Meanwhile& meanwhile) const;
  std::string write_copy(const Flight& flight) const;
  std::string write_live(const Flight& flight, const Meanwhile& meanwhile) const;
  std::string named(std::string outcome) const;
  void start_tally();
  std::optional<WrittenCheckpoint> advance();
  void begin_commit(const std::vector<std::string>& outcomes);
  [[noreturn]] void give_up(const std::vector<std::string>& outcomes);

  const Plan& plan() const { return plan_.plan(); }
  const PlannedPart& own_part() const {
    return plan().parts[static_cast<std::size_t>(all_.rank())];
  }
  std::uint64_t own_bytes() const {
    return own_part().layout.bytes - own_part().layout.head.size();
  }
  Slice slice_of(const PlannedSlice& planned) const {
    const StoredTensor& tensor = plan().tensors[planned.tensor];
    return tensor.slice(tensor.slices[planned.stored]);
  }
  void check_wanted() const {
    if (cancelled_) throw Failure("the checkpoint was given up");
  }
  std::uint64_t memory() const;
  bool has_memory() {
    return copy_.bytes() >= own_bytes() || (own_bytes() <= memory() && copy_.allocate(own_bytes()));
  }

  comm::Communicator all_;      // for what ranks tell each other
  comm::Communicator streams_;  // for parts
  CheckpointFolder folder_;
  CheckpointOptions options_;
  bool any_thread_;  // may send and receive
  std::atomic<bool> cancelled_{false};
  SharedPlan plan_;
  CopyMemory copy_;                // for every checkpoint: getting pages takes longer than copying
  std::vector<bool> sees_folder_;  // by rank; empty: not known yet
  std::array<std::int64_t, kTallySize> tally_{};
  comm::Operation tally_sum_;
  std::unique_ptr<Flight> flight_;
};

// Most memory for this rank's copy.
std::uint64_t CheckpointWriter::Impl::memory() const {
  const std::uint64_t free = available_memory();
  const std::uint64_t most = options_.memory > 0 ? std::min(options_.memory, free) : free / 2;
  return most / static_cast<std::uint64_t>(std::max(1, options_.ranks_of_host));
}

void CheckpointWriter::Impl::reserve(const State& state) {
  HeldTensors held;
  const std::string outcome = outcome_of([&] { held = hold(state); });
  plan_.update(all_, outcome, held.slices, "");
  if (options_.asynchronous && own_bytes() > 0 && own_bytes() <= memory())
    copy_.reserve(own_bytes());
}

// The first time, it is found out who sees the folder.
void CheckpointWriter::Impl::make_draft(Flight& flight) {
  flight.folder = on_rank_0(all_, [&] {
    flight.draft.emplace(folder_.folder(), flight.manifest.step,
                         [this] { return cancelled_.load(); });
    return flight.draft->folder();
  });
  if (!sees_folder_.empty()) return;
  try {
    sees_folder_ = who_sees(all_, flight.folder);
  } catch (const Failure& error) {
    on_rank_0(all_, [&]() -> std::string { throw flight.draft->failure(error.what()); });
  }
}

// Those that come through rank 0.
std::vector<IncomingPart> CheckpointWriter::Impl::parts_of_others() const {
  std::vector<IncomingPart> parts;
  for (std::size_t rank = 0; rank < sees_folder_.size(); ++rank) {
    if (sees_folder_[rank] || plan().parts[rank].slices.empty()) continue;
    const int number = static_cast<int>(rank);
    parts.push_back(
        {number, flight_->folder + "/" + part_name(number), plan().parts[rank].layout.bytes});
  }
  return parts;
}

// All that this rank can fail in before others rely on it: memory, and the copy.
void CheckpointWriter::Impl::prepare(Flight& flight, Ticks& ticks) {
  const PlannedPart& part = own_part();
  const std::vector<IncomingPart> others = parts_of_others();
  if (first() && !others.empty())
    flight.receiver = std::make_unique<PartReceiver>(streams_, others);
  if (part.slices.empty()) return;
  if (!sees_folder_[static_cast<std::size_t>(all_.rank())])
    flight.stream = std::make_unique<PartStream>(streams_, stream_piece(others.size()));
  const bool sent_here = flight.stream != nullptr && !any_thread_;
  if (!options_.asynchronous || sent_here || !has_memory()) return;
  std::byte* to = copy_.data();
  for (std::size_t i = 0; i < part.slices.size(); to += part.bytes[i++]) {
    copy_piece(flight.held, part.slices[i].held, slice_of(part.slices[i]), to);
    ticks.working();
  }
  flight.written.copied = own_bytes();
  flight.written.asynchronous = true;
}

// Whether this rank writes its part from where it is, before begin() returns.
bool CheckpointWriter::Impl::holds_part() const {
  return !own_part().slices.empty() && !flight_->written.asynchronous;
}

// What others are told of this rank.
std::string CheckpointWriter::Impl::named(std::string outcome) const {
  if (outcome[0] != kDone && all_.size() > 1)
    outcome.insert(1, "rank " + std::to_string(all_.rank()) + " on host " + host_name() + ": ");
  return outcome;
}

// Whether some rank holds training up. Throws on every rank where one has failed.
bool CheckpointWriter::Impl::all_prepared(const std::string& outcome) {
  enum { kFailed, kHolding, kSize };
  std::array<std::int64_t, kSize> ranks{};
  ranks[kFailed] = outcome[0] == kDone ? 0 : 1;
  ranks[kHolding] = holds_part() || holds_arrivals() ? 1 : 0;
  all_.allreduce(comm::buffer_of(ranks), comm::ReduceOp::sum);
  if (ranks[kFailed] > 0) give_up(all_.gather_text(named(outcome)));
  return ranks[kHolding] > 0;
}

std::string CheckpointWriter::Impl::write(const Flight& flight, const PartBytes& bytes,
                                          const Meanwhile& meanwhile) const {
  std::optional<PartFile> file;
  if (!flight.stream) file.emplace(flight.folder + "/" + part_name(all_.rank()));
  PartSink& sink = flight.stream ? static_cast<PartSink&>(*flight.stream) : *file;
  std::string checksums;
  for (const std::uint64_t checksum : write_part(sink, own_part(), bytes, meanwhile))
    checksums += to_hex(checksum);
  return checksums;
}

std::string CheckpointWriter::Impl::write_copy(const Flight& flight) const {
  const std::byte* from = copy_.data();
  const auto bytes = [&](std::size_t i, const auto& take) {
    for (std::uint64_t left = own_part().bytes[i]; left > 0;) {
      const std::size_t size = std::min<std::uint64_t>(left, kPieceBytes);
      take(std::span(from, size));
      from += size;
      left -= size;
    }
  };
  return write(flight, bytes, [this] { check_wanted(); });
}

std::string CheckpointWriter::Impl::write_live(const Flight& flight,
                                               const Meanwhile& meanwhile) const {
  const PlannedPart& part = own_part();
  std::vector<std::byte> piece_bytes;
  const auto bytes = [&](std::size_t i, const auto& take) {
    const std::size_t element = size_of_type(plan().tensors[part.slices[i].tensor].type);
    for_each_piece(slice_of(part.slices[i]), element, kPieceBytes, [&](const Slice& piece) {
      piece_bytes.resize(static_cast<std::size_t>(piece.elements()) * element);
      copy_piece(flight.held, part.slices[i].held, piece, piece_bytes.data());
      take(piece_bytes);
    });
  };
  return write(flight, bytes, meanwhile);
}

// The plan and the flight stay while threads are at it.
void CheckpointWriter::Impl::start(Flight& flight, bool somebody_holds) {
  if (own_part().slices.empty()) flight.part.set(std::string(1, kDone));
  if (flight.receiver && any_thread_) {
    flight.arrivals.start([this, &flight] { flight.receiver->run([this] { check_wanted(); }); });
  }
  if (flight.written.asynchronous)
    flight.part.start([this, &flight] { return write_copy(flight); });
  if (somebody_holds) write_held(flight);
}

// What this rank writes before begin() returns, or the same of others: all know that it goes on.
void CheckpointWriter::Impl::write_held(Flight& flight) {
  Ticks ticks(all_);
  const Meanwhile here = [&] {
    check_wanted();
    ticks.working();
  };
  const bool part = holds_part(), arrivals = holds_arrivals();
  if (part && (all_.size() == 1 || (flight.stream && !any_thread_))) {
    flight.part.set(outcome_of([&] { return write_live(flight, here); }));
  } else if (part) {
    flight.part.start([this, &flight] { return write_live(flight, [this] { check_wanted(); }); });
  }
  if (arrivals) {
    flight.arrivals.set(outcome_of([&] { flight.receiver->run(here); }));
  }
  ticks.finish(
      [&](std::chrono::milliseconds patience) { return part && flight.part.busy(patience); });
}

void CheckpointWriter::Impl::begin(Manifest manifest, const State& state) {
  auto flight = std::make_unique<Flight>();
  const std::string outcome = outcome_of([&] { flight->held = hold(state); });
  manifest.aliases.clear();
  add_words(plan_.update(all_, outcome, flight->held.slices, words_of(state)), manifest);
  flight->written.step = manifest.step;
  flight->written.score = manifest.score;
  flight->manifest = std::move(manifest);
  make_draft(*flight);
  flight_ = std::move(flight);
  Ticks ticks(all_);
  const std::string prepared = outcome_of([&] { prepare(*flight_, ticks); });
  ticks.finish([](std::chrono::milliseconds) { return false; });
  const bool somebody_holds = all_prepared(prepared);
  start(*flight_, somebody_holds);
  flight_->held = {};
  flight_->written.held_s = seconds_since(flight_->began);
}

void CheckpointWriter::Impl::start_tally() {
  tally_[kWriting] = flight_->writing() ? 1 : 0;
  tally_[kFailures] = flight_->part.failed() || flight_->arrivals.failed() ? 1 : 0;
  tally_[kCommitting] = flight_->commit.busy() ? 1 : 0;
  tally_sum_ = all_.start_allreduce(comm::buffer_of(tally_), comm::ReduceOp::sum);
}

std::optional<WrittenCheckpoint> CheckpointWriter::Impl::poll() {
  if (!flight_) return std::nullopt;
  if (tally_sum_.valid()) {
    tally_sum_.wait();
    if (auto written = advance()) return written;
  }
  start_tally();
  return std::nullopt;
}

std::optional<WrittenCheckpoint> CheckpointWriter::Impl::finish() {
  while (flight_) {
    if (auto written = poll()) return written;
    if (flight_->writing() || flight_->commit.busy()) std::this_thread::sleep_for(kTick);
  }
  return std::nullopt;
}

// What all ranks know now moves them on together.
std::optional<WrittenCheckpoint> CheckpointWriter::Impl::advance() {
  if (tally_[kWriting] > 0 || tally_[kCommitting] > 0) return std::nullopt;
  Flight& flight = *flight_;
  if (!flight.committing) {
    const std::vector<std::string> outcomes = all_.gather_text(
        named(flight.arrivals.failed() ? flight.arrivals.outcome() : flight.part.outcome()));
    if (tally_[kFailures] > 0) give_up(outcomes);
    if (first()) begin_commit(outcomes);
    flight.committing = true;
    return std::nullopt;
  }
  // Gone before anything is thrown: the next one may be begun.
  const std::unique_ptr<Flight> done = std::move(flight_);
  done->written.path = on_rank_0(all_, [&] { return result_of(done->commit.outcome()); });
  if (done->draft) done->written.warning = done->draft->warning();
  done->written.seconds = seconds_since(done->began);
  return done->written;
}

void CheckpointWriter::Impl::begin_commit(const std::vector<std::string>& outcomes) {
  Manifest& manifest = flight_->manifest;
  manifest.tensors = plan().tensors;
  manifest.files.clear();
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const PlannedPart& part = plan().parts[rank];
    if (part.slices.empty()) continue;
    const std::string& head = part.layout.head;
    manifest.files[part_name(static_cast<int>(rank))] = {part.layout.bytes, head.size(),
                                                         xxh3(std::as_bytes(std::span(head)))};
    constexpr std::size_t kDigits = 16;
    for (std::size_t i = 0; i < part.slices.size(); ++i) {
      const PlannedSlice& planned = part.slices[i];
      manifest.tensors[planned.tensor].slices[planned.stored].xxh3 =
          from_hex(outcomes[rank].substr(1 + i * kDigits, kDigits));
    }
  }
  flight_->commit.start([flight = flight_.get(), this] {
    hold_at("checkpoint.write");
    std::string path =
        flight->draft->commit(flight->manifest, options_.retention, options_.confirm);
    hold_at("checkpoint.name");
    return path;
  });
}

void CheckpointWriter::Impl::give_up(const std::vector<std::string>& outcomes) {
  const std::unique_ptr<Flight> failed = std::move(flight_);
  on_rank_0(all_, [&]() -> std::string {
    const auto bad = std::find_if(outcomes.begin(), outcomes.end(),
                                  [](const std::string& outcome) { return outcome[0] != kDone; });
    throw failed->draft->failure(bad == outcomes.end() ? "a rank failed" : bad->substr(1));
  });
  throw Failure("the checkpoint was not written");  // on_rank_0 has thrown
}

CheckpointWriter::CheckpointWriter(const comm::Communicator& communicator, CheckpointFolder folder,
                                   CheckpointOptions options)
    : impl_(std::make_unique<Impl>(communicator, std::move(folder), std::move(options))) {}
CheckpointWriter::~CheckpointWriter() = default;
void CheckpointWriter::reserve(const State& state) { impl_->reserve(state); }
void CheckpointWriter::begin(Manifest manifest, const State& state) {
  impl_->begin(std::move(manifest), state);
}
std::optional<WrittenCheckpoint> CheckpointWriter::poll() { return impl_->poll(); }
std::optional<WrittenCheckpoint> CheckpointWriter::finish() { return impl_->finish(); }
bool CheckpointWriter::writing() const { return impl_->writing(); }

}  // namespace convoy::train
