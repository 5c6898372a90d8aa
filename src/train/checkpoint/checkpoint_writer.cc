#include "convoy/train/checkpoint_writer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <map>
#include <random>
#include <thread>

#include "convoy/base/checksum.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "train/checkpoint/background_work.h"
#include "train/checkpoint/copy_memory.h"
#include "train/checkpoint/held_tensors.h"
#include "train/checkpoint/part_writer.h"
#include "train/checkpoint/slice_reader.h"
#include "train/rank_work.h"

namespace convoy::train {
namespace {

// How often ranks that only wait for a checkpoint ask each other.
constexpr std::chrono::milliseconds kTick(5);

constexpr const char* kToken = "/.token";

}  // namespace

class CheckpointWriter::Impl {
 public:
  Impl(const comm::Communicator& communicator, CheckpointFolder folder, CheckpointOptions options)
      : all_(communicator.duplicate()),
        streams_(communicator.duplicate()),
        folder_(std::move(folder)),
        options_(std::move(options)) {}
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
    bool committing = false;
    // Threads end before what they use.
    Work part, arrivals, commit;

    bool writing() {
      const bool own = part.busy(), others = arrivals.busy();
      return own || others;
    }
  };
  enum { kWriting, kFailures, kCommitting, kTallySize };

  bool first() const { return all_.rank() == 0; }
  void make_plan(const std::string& outcome, const std::vector<HeldSlice>& held);
  std::string make_draft(Flight& flight);
  void receive_from_others(Flight& flight);
  void write_own_part(Flight& flight, const std::string& folder, HeldTensors held);
  std::string write(const std::string& folder, const PartBytes& bytes) const;
  void start_tally();
  std::optional<WrittenCheckpoint> advance();
  void begin_commit(const std::vector<std::string>& outcomes);
  [[noreturn]] void give_up(const std::vector<std::string>& outcomes);

  const PlannedPart& own_part() const {
    return plan_->parts[static_cast<std::size_t>(all_.rank())];
  }
  std::uint64_t own_bytes() const {
    return own_part().layout.bytes - own_part().layout.head.size();
  }
  std::uint64_t memory() const;
  bool have_memory(std::uint64_t bytes);

  comm::Communicator all_;      // for what ranks tell each other
  comm::Communicator streams_;  // for parts
  CheckpointFolder folder_;
  CheckpointOptions options_;
  std::atomic<bool> cancelled_{false};
  // Of the last checkpoint; the next one is mostly alike.
  std::vector<std::string> held_hashes_;
  std::shared_ptr<const Plan> plan_;
  CopyMemory copy_;                // for every checkpoint: getting pages takes longer than copying
  std::future<void> reservation_;  // of copy_
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

bool CheckpointWriter::Impl::have_memory(std::uint64_t bytes) {
  if (reservation_.valid()) reservation_.get();
  return copy_.bytes() >= bytes || (bytes <= memory() && copy_.allocate(bytes));
}

// Pages are got on a thread, while training goes on.
void CheckpointWriter::Impl::reserve(const State& state) {
  HeldTensors held;
  const std::string outcome = outcome_of([&] {
    held = hold(state);
    return std::string();
  });
  make_plan(outcome, held.slices);
  if (!options_.asynchronous || own_part().slices.empty() || own_bytes() > memory()) return;
  reservation_ = std::async(std::launch::async, [this, bytes = own_bytes()] {
    if (copy_.allocate(bytes)) copy_.touch(cancelled_);
  });
}

// Ranks that hold the same tell each other no more than that.
void CheckpointWriter::Impl::make_plan(const std::string& outcome,
                                       const std::vector<HeldSlice>& held) {
  const std::string text = outcome[0] == kDone ? to_text(held) : "";
  const std::string mine =
      outcome[0] == kDone ? kDone + to_hex(xxh3(std::as_bytes(std::span(text)))) : outcome;
  const std::vector<std::string> hashes = all_.gather_text(mine);
  for (const std::string& hash : hashes) result_of(hash);  // the first mistake, on every rank
  if (hashes == held_hashes_) return;
  std::map<std::string, std::size_t> place;
  std::vector<std::size_t> of_rank;
  std::vector<int> speaker;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    const auto [found, fresh] = place.try_emplace(hashes[rank], place.size());
    if (fresh) speaker.push_back(static_cast<int>(rank));
    of_rank.push_back(found->second);
  }
  std::vector<std::vector<HeldSlice>> distinct;
  for (const int rank : speaker)
    distinct.push_back(held_from_text(all_.broadcast_text(text, rank)));
  plan_ = std::make_shared<const Plan>(plan_checkpoint(distinct, of_rank));
  held_hashes_ = hashes;
}

// The folder to write into. The first time, it is found out who sees it.
std::string CheckpointWriter::Impl::make_draft(Flight& flight) {
  const bool ask = sees_folder_.empty();
  const std::string told = on_rank_0(all_, [&] {
    flight.draft.emplace(folder_.folder(), flight.manifest.step);
    const std::string folder = flight.draft->folder();
    if (!ask || all_.size() == 1) return folder;
    std::random_device random;
    const std::string token = to_hex(std::uint64_t{random()} << 32 | random());
    try {
      write_file_atomically(folder + kToken, token);
    } catch (const Failure& error) {
      throw flight.draft->failure(error.what());
    }
    return folder + "\n" + token;
  });
  const std::size_t end = told.rfind('\n');
  const std::string folder = told.substr(0, end);
  if (!ask) return folder;
  sees_folder_.assign(static_cast<std::size_t>(all_.size()), true);
  if (all_.size() == 1) return folder;
  std::string found;
  try {
    found = read_text_file(folder + kToken);
  } catch (const std::exception&) {  // not there, or not for this rank
  }
  const auto answers = all_.gather_text(first() || found == told.substr(end + 1) ? "yes" : "no");
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    sees_folder_[rank] = answers[rank] == "yes";
  if (first()) std::remove((folder + kToken).c_str());
  return folder;
}

void CheckpointWriter::Impl::receive_from_others(Flight& flight) {
  std::vector<IncomingPart> parts;
  for (std::size_t rank = 0; rank < sees_folder_.size(); ++rank) {
    if (sees_folder_[rank] || plan_->parts[rank].slices.empty()) continue;
    const int number = static_cast<int>(rank);
    parts.push_back({number, flight.draft->folder() + "/" + part_name(number),
                     plan_->parts[rank].layout.bytes});
  }
  if (parts.empty()) return;
  flight.arrivals.start([this, parts] {
    receive_parts(streams_, parts, cancelled_);
    return std::string();
  });
}

std::string CheckpointWriter::Impl::write(const std::string& folder, const PartBytes& bytes) const {
  std::unique_ptr<PartSink> sink;
  if (sees_folder_[static_cast<std::size_t>(all_.rank())]) {
    sink = std::make_unique<PartFile>(folder + "/" + part_name(all_.rank()));
  } else {
    std::size_t streams = 0;
    for (std::size_t rank = 0; rank < sees_folder_.size(); ++rank)
      streams += !sees_folder_[rank] && !plan_->parts[rank].slices.empty() ? 1 : 0;
    sink = std::make_unique<PartStream>(streams_, stream_piece(streams), cancelled_);
  }
  std::string checksums;
  for (const std::uint64_t checksum : write_part(*sink, own_part(), bytes, cancelled_))
    checksums += to_hex(checksum);
  return checksums;
}

void CheckpointWriter::Impl::write_own_part(Flight& flight, const std::string& folder,
                                            HeldTensors held) {
  const PlannedPart& part = own_part();
  if (part.slices.empty()) {
    flight.part.set(std::string(1, kDone));
    return;
  }
  const auto slice_of = [this](const PlannedSlice& planned) {
    const StoredTensor& tensor = plan_->tensors[planned.tensor];
    return tensor.slice(tensor.slices[planned.stored]);
  };
  const std::uint64_t bytes = own_bytes();
  if (options_.asynchronous && have_memory(bytes)) {
    std::byte* to = copy_.data();
    for (std::size_t i = 0; i < part.slices.size(); to += part.bytes[i++])
      copy_piece(held, part.slices[i].held, slice_of(part.slices[i]), to);
    flight.written.copied = bytes;
    flight.written.asynchronous = true;
    // The plan stays while this is under way.
    flight.part.start([this, folder, &part] {
      const std::byte* from = copy_.data();
      return write(folder, [&](std::size_t i, const auto& take) {
        for (std::uint64_t left = part.bytes[i]; left > 0;) {
          const std::size_t size = std::min<std::uint64_t>(left, kPieceBytes);
          take(std::span(from, size));
          from += size;
          left -= size;
        }
      });
    });
    return;
  }
  flight.part.set(outcome_of([&] {
    std::vector<std::byte> piece_bytes;
    return write(folder, [&](std::size_t i, const auto& take) {
      const std::size_t element = size_of_type(plan_->tensors[part.slices[i].tensor].type);
      for_each_piece(slice_of(part.slices[i]), element, kPieceBytes, [&](const Slice& piece) {
        piece_bytes.resize(static_cast<std::size_t>(piece.elements()) * element);
        copy_piece(held, part.slices[i].held, piece, piece_bytes.data());
        take(piece_bytes);
      });
    });
  }));
}

void CheckpointWriter::Impl::begin(Manifest manifest, const State& state) {
  auto flight = std::make_unique<Flight>();
  HeldTensors held;
  const std::string outcome = outcome_of([&] {
    held = hold(state);
    return std::string();
  });
  make_plan(outcome, held.slices);
  manifest.aliases = state.aliases;
  manifest.numbers.insert(state.numbers.begin(), state.numbers.end());
  manifest.lists.insert(state.lists.begin(), state.lists.end());
  flight->written.step = manifest.step;
  flight->written.score = manifest.score;
  flight->manifest = std::move(manifest);
  const std::string folder = make_draft(*flight);
  flight_ = std::move(flight);
  if (first()) receive_from_others(*flight_);
  write_own_part(*flight_, folder, std::move(held));
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
    std::string mine = flight.arrivals.failed() ? flight.arrivals.outcome() : flight.part.outcome();
    if (mine[0] != kDone && all_.size() > 1)
      mine.insert(1, "rank " + std::to_string(all_.rank()) + " on host " + host_name() + ": ");
    const std::vector<std::string> outcomes = all_.gather_text(mine);
    if (tally_[kFailures] > 0) give_up(outcomes);
    if (first()) begin_commit(outcomes);
    flight.committing = true;
    return std::nullopt;
  }
  // Gone before anything is thrown: the next one may be begun.
  const std::unique_ptr<Flight> done = std::move(flight_);
  done->written.path = on_rank_0(all_, [&] { return result_of(done->commit.outcome()); });
  done->written.seconds = seconds_since(done->began);
  return done->written;
}

void CheckpointWriter::Impl::begin_commit(const std::vector<std::string>& outcomes) {
  Manifest& manifest = flight_->manifest;
  manifest.tensors = plan_->tensors;
  manifest.files.clear();
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const PlannedPart& part = plan_->parts[rank];
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
    return flight->draft->commit(flight->manifest, options_.retention);
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
