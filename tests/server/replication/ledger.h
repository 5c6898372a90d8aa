// The state machine of the simulation: it counts how often each update was applied.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "server/replication/types.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server::replication::sim {

using Update = std::pair<std::uint64_t, std::uint64_t>;  // client, its sequence number

inline Command command_of(const Update& update) {
  Writer to;
  to.u64(update.first);
  to.u64(update.second);
  return std::make_shared<const Bytes>(to.take());
}

inline Update update_of(std::span<const std::byte> command) {
  Reader from(command, "command");
  const std::uint64_t client = from.u64();
  return {client, from.u64()};
}

class Ledger {
 public:
  void apply(const Update& update) {
    std::uint64_t& last = clients_[update.first];
    if (update.second <= last) return;  // applied before: the same reply again
    last = update.second;
    ++applied_[update];
  }

  Bytes save(bool with_clients) const {
    Writer to;
    to.u64(applied_.size());
    for (const auto& [update, times] : applied_) {
      to.u64(update.first);
      to.u64(update.second);
      to.u64(times);
    }
    to.u64(with_clients ? clients_.size() : 0);
    if (with_clients) {
      for (const auto& [client, last] : clients_) {
        to.u64(client);
        to.u64(last);
      }
    }
    return to.take();
  }

  static Ledger load(std::span<const std::byte> bytes) {
    Ledger ledger;
    if (bytes.empty()) return ledger;
    Reader from(bytes, "ledger");
    for (std::uint64_t left = from.u64(); left > 0; --left) {
      const std::uint64_t client = from.u64(), sequence = from.u64();
      ledger.applied_[{client, sequence}] = from.u64();
    }
    for (std::uint64_t left = from.u64(); left > 0; --left) {
      const std::uint64_t client = from.u64();
      ledger.clients_[client] = from.u64();
    }
    from.end();
    return ledger;
  }

  const std::map<Update, std::uint64_t>& applied() const { return applied_; }
  bool operator==(const Ledger&) const = default;

 private:
  std::map<std::uint64_t, std::uint64_t> clients_;  // the last sequence number of each
  std::map<Update, std::uint64_t> applied_;
};

}  // namespace convoy::server::replication::sim
