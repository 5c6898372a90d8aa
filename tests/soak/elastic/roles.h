// What the processes of the soak do. They say lines, and "failed WHY" when they end by an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/server/job.h"
#include "tests/soak/elastic/process.h"

namespace convoy::soak {

inline constexpr std::uint64_t kNames = 4096;  // replicas that there can be, one after the other
inline constexpr auto kBetween = std::chrono::milliseconds(60);  // of one replica's pushes
inline constexpr auto kLease = std::chrono::milliseconds(1500);

struct Options {
  double seconds = 600;
  std::uint32_t replicas = 24;
  std::uint32_t servers = 3;
  std::uint64_t seed = 1;
  std::string folder;
};

// A vector for each shard; samples for about so long.
server::JobDescription description_of(const Options& options);

// In the ledgers.
constexpr std::uint64_t id_of(std::uint64_t name, std::uint64_t push) { return name << 32 | push; }

// Both say their address, and stay.
void be_coordinator(const Options& options, const Process::Say& say);
void be_server(const Options& options, const std::string& coordinator, std::uint64_t number,
               const Process::Say& say);

// "acknowledged" after each push; "left" when it has left in order. Leaves after so many pushes, or
// when nothing is left to do.
void be_replica(const Options& options, const std::string& coordinator, std::uint64_t name,
                std::uint64_t pushes, const Process::Say& say);

// "ready"; "progress SAMPLES DONE REPLICAS" again and again; when all is done "count SHARD NAME
// PUSHES" for each, "ledger SHARD COUNT SUM SQUARES", and "end SAMPLES TWICE REDONE".
void be_evaluator(const Options& options, const std::string& coordinator,
                  const std::vector<std::string>& servers, const Process::Say& say);

}  // namespace convoy::soak
