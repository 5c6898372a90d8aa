// What a coordinator stores of a batch optimization, so that another process can go on with it.
#pragma once

#include <cstddef>
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
// In one iteration: of another one they are of no use. A store may take the start of the next one
// and keep these, where both are too large for one step.
struct BatchAnswers {
  std::uint64_t commands = 0;  // BatchStart::commands of that iteration
  std::vector<BatchAnswer> answers;
  bool operator==(const BatchAnswers&) const = default;
};

// As many bytes as the start of an iteration of this method has at most.
std::size_t largest_start(const optim::BatchOptions& options);
// The longest history of L-BFGS of which that is no more than so many.
int longest_history(std::size_t bytes);
// Throws UsageError where a store whose values have so many bytes at most can't take it.
void require_room(const optim::BatchOptions& options, std::size_t largest_value);

// Both begin with u16 version. decode...() throw UsageError.
Bytes encode(const BatchStart& start);
Bytes encode(const BatchAnswers& answers);
BatchStart decode_batch_start(std::span<const std::byte> bytes);
BatchAnswers decode_batch_answers(std::span<const std::byte> bytes);

}  // namespace convoy::server::coordinator
