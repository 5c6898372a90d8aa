// What a coordinator stores of a batch optimization, so that another process can go on with it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convoy/optim/batch.h"
#include "server/wire/writer.h"

namespace convoy::server::coordinator {

// What an iteration begins with.
struct BatchStart {
  bool begun = false;  // the first evaluation is done
  optim::BatchState state;
  optim::BatchIteration last;  // how the iteration before ended
  std::uint64_t commands = 0;  // that shards have been given before it
  bool operator==(const BatchStart& other) const;
};

// What the method has asked for in an iteration, and what it was told.
struct BatchAnswer {
  std::uint64_t question = 0;  // a checksum of what was asked
  std::vector<double> scalars;
  bool operator==(const BatchAnswer&) const = default;
};

// Both begin with u16 version. decode...() throw UsageError.
Bytes encode(const BatchStart& start);
Bytes encode(std::span<const BatchAnswer> answers);
BatchStart decode_batch_start(std::span<const std::byte> bytes);
std::vector<BatchAnswer> decode_batch_answers(std::span<const std::byte> bytes);

}  // namespace convoy::server::coordinator
