// Keys and their values, changed by the records of a log.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>

#include "server/coordinator/state_store.h"
#include "server/state/machine.h"

namespace convoy::server::coordinator {

// A record of the log (docs/server-coordinator.md).
struct StoreRecord {
  std::uint64_t term = 0;
  std::vector<Write> writes;  // what is expected isn't in it
};
Bytes encode(std::uint64_t term, std::span<const Write> writes);
StoreRecord decode_store_record(std::span<const std::byte> bytes);  // throws UsageError

// One thread at a time.
class KeyState final : public StateMachine {
 public:
  // Nothing is replied. Throws UsageError for what encode() can't have made.
  Bytes apply(std::uint64_t index, std::span<const std::byte> record) override;
  std::uint64_t applied() const override { return applied_; }
  std::shared_ptr<const StateImage> image() const override;
  void load(SnapshotSource& source) override;

  std::uint64_t term() const { return term_; }
  const std::map<std::string, Value>& keys() const { return keys_; }

 private:
  std::uint64_t applied_ = 0;
  std::uint64_t term_ = 0;
  std::map<std::string, Value> keys_;
};

}  // namespace convoy::server::coordinator
