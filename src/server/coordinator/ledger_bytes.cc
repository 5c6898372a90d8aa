// What is stored of a ledger (docs/server-coordinator.md).
#include "convoy/base/error.h"
#include "server/coordinator/ledger.h"
#include "server/service/coordinator_calls.h"

namespace convoy::server::coordinator {
namespace {

constexpr std::uint16_t kLedgerVersion =
    2;  // 1: without the epoch of the round, and that of shards
constexpr std::uint16_t kPortionsVersion = 1;

}  // namespace

Bytes Ledger::encode() const {
  Writer writer;
  writer.u16(kLedgerVersion);
  writer.u64(length_);
  for (const std::uint64_t number :
       {first_open_, closed_, epoch_, position_, handed_, next_number_, round_, twice_, redone_}) {
    writer.u64(number);
  }
  writer.boolean(round_epoch_.has_value());
  if (round_epoch_) writer.u64(*round_epoch_);
  writer.boolean(shards_round_.has_value());
  if (shards_round_) writer.u64(*shards_round_);
  writer.u32(static_cast<std::uint32_t>(done_.size()));
  for (const auto& [epoch, ranges] : done_) {
    writer.u64(epoch);
    const auto list = ranges.list();
    writer.u32(static_cast<std::uint32_t>(list.size()));
    for (const auto& [begin, end] : list) {
      writer.u64(begin);
      writer.u64(end);
    }
  }
  writer.u32(static_cast<std::uint32_t>(redo_.size()));
  for (const Rest& rest : redo_) {
    writer.u64(rest.epoch);
    writer.u64(rest.begin);
    writer.u64(rest.end);
  }
  return writer.take();
}

void Ledger::decode(std::span<const std::byte> bytes) {
  Reader reader(bytes, "ledger of the coordinator");
  const std::uint16_t version = reader.version(kLedgerVersion);
  if (const std::uint64_t length = reader.u64(); length != length_) {
    reader.refuse("an epoch had " + std::to_string(length) + " samples, it has " +
                  std::to_string(length_));
  }
  for (std::uint64_t* number : {&first_open_, &closed_, &epoch_, &position_, &handed_,
                                &next_number_, &round_, &twice_, &redone_}) {
    *number = reader.u64();
  }
  round_epoch_.reset();
  if (version > 1 && reader.boolean()) {
    round_epoch_ = reader.u64();
    if (!rounds_) reader.refuse("the epoch of a round, where there are none");
  }
  shards_round_.reset();
  if (version > 1 && reader.boolean()) {
    shards_round_ = reader.u64();
    if (!rounds_) reader.refuse("a round of shards, where there are none");
  }
  done_.clear();
  for (std::uint32_t epochs = reader.count(12); epochs > 0; --epochs) {
    Ranges& ranges = done_[reader.u64()];
    for (std::uint32_t count = reader.count(16); count > 0; --count) {
      const std::uint64_t begin = reader.u64(), end = reader.u64();
      if (begin >= end || end > length_) reader.refuse("samples that no epoch has");
      ranges.add(begin, end);
    }
  }
  groups_.clear();
  holding_ = shares_due_ = 0;
  redo_.clear();
  redo_samples_ = 0;
  for (std::uint32_t count = reader.count(24); count > 0; --count) {
    const std::uint64_t epoch = reader.u64(), begin = reader.u64();
    const Rest rest{epoch, begin, reader.u64()};
    if (rest.begin >= rest.end || rest.end > length_) reader.refuse("samples that no epoch has");
    redo_.push_back(rest);
    redo_samples_ += rest.end - rest.begin;
  }
  reader.end();
}

Bytes Ledger::encode(std::uint64_t group) const {
  const Group& of = groups_.at(group);
  Writer writer;
  writer.u16(kPortionsVersion);
  writer.u64(of.round);
  writer.u32(static_cast<std::uint32_t>(of.portions.size()));
  for (const Portion& portion : of.portions) calls::write(writer, portion);
  return writer.take();
}

void Ledger::decode(std::uint64_t group, std::span<const std::byte> bytes) {
  Reader reader(bytes, "portions of a replica");
  reader.version(kPortionsVersion);
  if (has(group)) reader.refuse("replica " + std::to_string(group) + " is there twice");
  enter(group);
  Group& of = groups_.at(group);
  of.round = reader.u64();
  if (of.round == round_) {
    --shares_due_;
    // Of what was stored without it, as far as can be known.
    if (rounds_ && !round_epoch_) round_epoch_ = epoch_;
  }
  for (std::uint32_t count = reader.count(32); count > 0; --count) {
    const Portion portion = calls::read_portion(reader);
    if (portion.end > length_ || portion.number == 0) reader.refuse("a portion that can't be");
    if (!of.portions.empty() && of.portions.back().number >= portion.number) {
      reader.refuse("portions out of order");
    }
    of.portions.push_back(portion);
    ++holding_;
  }
  if (of.round == round_ && rounds_ && !of.portions.empty()) {
    round_epoch_ = of.portions.back().epoch;  // known
  }
  reader.end();
}

}  // namespace convoy::server::coordinator
