#include "server/coordinator/batch_record.h"

#include <string>

#include "convoy/base/error.h"
#include "convoy/server/batch.h"
#include "server/service/coordinator_calls.h"
#include "server/state/batch_commands.h"
#include "server/wire/reader.h"

namespace convoy::server::coordinator {
namespace {

constexpr std::uint16_t kBatchVersion = 1;
constexpr std::size_t kNameBytes = 13;
constexpr std::size_t kRest = 256;
// Gradient, change and direction.
constexpr std::size_t kVectorsWithoutHistory = 3;

// Of so many vectors with each other, and with themselves.
constexpr std::size_t largest_products(std::size_t vectors) {
  return vectors * (vectors + 1) / 2 * (2 * kNameBytes + 8);
}

// Those that have products are the gradient, steps and changes of the history, and a change that
// isn't in it.
constexpr std::size_t largest_start_of(int history) {
  const auto steps = static_cast<std::size_t>(history);
  return kRest + 8 * steps + largest_products(2 * steps + 2);
}

constexpr int longest_history_in(std::size_t bytes) {
  int history = 0;
  while (history < optim::kMostHistory && largest_start_of(history + 1) <= bytes) ++history;
  return history;
}

// A job that goes on from a checkpoint is begun by a message with all of it.
constexpr std::size_t kAroundStart = 2 + 8 + 4;  // of calls::BatchFrom
static_assert(longest_history_in(calls::kLargestRequest - kAroundStart) == kLongestHistory);

std::int64_t read_count(Reader& from) {
  const std::uint64_t value = from.u64();
  if (value > INT64_MAX) from.refuse("a number below 0");
  return static_cast<std::int64_t>(value);
}

int read_int(Reader& from) {
  const std::uint32_t value = from.u32();
  if (value > INT32_MAX) from.refuse("a number below 0");
  return static_cast<int>(value);
}

}  // namespace

bool BatchStart::operator==(const BatchStart& other) const {
  return encode(*this) == encode(other);
}

Bytes encode(const BatchStart& start) {
  Writer writer;
  writer.u16(kBatchVersion);
  writer.boolean(start.begun);
  writer.u64(start.commands);
  const optim::BatchState& state = start.state;
  writer.u64(static_cast<std::uint64_t>(state.iteration));
  write(writer, state.weights);
  writer.f64(state.loss);
  writer.u64(static_cast<std::uint64_t>(state.evaluations));
  writer.u32(static_cast<std::uint32_t>(state.history.size()));
  for (const std::int64_t iteration : state.history)
    writer.u64(static_cast<std::uint64_t>(iteration));
  writer.u32(static_cast<std::uint32_t>(state.products.size()));
  for (const auto& [pair, product] : state.products) {
    write(writer, pair.first);
    write(writer, pair.second);
    writer.f64(product);
  }
  write(writer, state.direction);
  writer.f64(state.step);
  writer.f64(state.slope);
  writer.u32(static_cast<std::uint32_t>(state.stalled));
  const optim::BatchIteration& last = start.last;
  writer.u64(static_cast<std::uint64_t>(last.iteration));
  writer.f64(last.loss);
  writer.f64(last.gradient_norm);
  writer.f64(last.step);
  writer.u32(static_cast<std::uint32_t>(last.evaluations));
  writer.boolean(last.restarted);
  writer.u8(static_cast<std::uint8_t>(last.ending));
  return writer.take();
}

BatchStart decode_batch_start(std::span<const std::byte> bytes) {
  Reader reader(bytes, "the start of an iteration");
  reader.version(kBatchVersion);
  BatchStart start;
  start.begun = reader.boolean();
  start.commands = reader.u64();
  optim::BatchState& state = start.state;
  state.iteration = read_count(reader);
  state.weights = read_vector_name(reader);
  state.loss = reader.f64();
  state.evaluations = read_count(reader);
  state.history.resize(reader.count(8));
  for (std::int64_t& iteration : state.history) iteration = read_count(reader);
  const std::uint32_t products = reader.count(2 * kNameBytes + 8);
  for (std::uint32_t i = 0; i < products; ++i) {
    const optim::VectorName a = read_vector_name(reader), b = read_vector_name(reader);
    state.products[{a, b}] = reader.f64();
  }
  state.direction = read_vector_name(reader);
  state.step = reader.f64();
  state.slope = reader.f64();
  state.stalled = read_int(reader);
  optim::BatchIteration& last = start.last;
  last.iteration = read_count(reader);
  last.loss = reader.f64();
  last.gradient_norm = reader.f64();
  last.step = reader.f64();
  last.evaluations = read_int(reader);
  last.restarted = reader.boolean();
  const std::uint8_t ending = reader.u8();
  if (ending > static_cast<std::uint8_t>(optim::BatchEnding::not_finite))
    reader.refuse("the unknown ending " + std::to_string(ending));
  last.ending = static_cast<optim::BatchEnding>(ending);
  reader.end();
  return start;
}

std::size_t largest_start(const optim::BatchOptions& options) {
  return options.method == optim::BatchMethod::lbfgs
             ? largest_start_of(options.history)
             : kRest + largest_products(kVectorsWithoutHistory);
}

int longest_history(std::size_t bytes) { return longest_history_in(bytes); }

void require_room(const optim::BatchOptions& options, std::size_t largest_value) {
  const std::size_t bytes = largest_start(options);
  if (bytes <= largest_value) return;
  throw UsageError("history = " + std::to_string(options.history) +
                   ": what is known of so many steps has up to " + std::to_string(bytes) +
                   " bytes, the coordinator's store takes " + std::to_string(largest_value) +
                   " at once: keep the job in a folder, or a history of at most " +
                   std::to_string(longest_history(largest_value)));
}

Bytes encode(const BatchAnswers& answers) {
  Writer writer;
  writer.u16(kBatchVersion);
  writer.u64(answers.commands);
  writer.u32(static_cast<std::uint32_t>(answers.answers.size()));
  for (const BatchAnswer& answer : answers.answers) {
    writer.u64(answer.question);
    writer.u32(static_cast<std::uint32_t>(answer.scalars.size()));
    for (const double scalar : answer.scalars) writer.f64(scalar);
  }
  return writer.take();
}

BatchAnswers decode_batch_answers(std::span<const std::byte> bytes) {
  Reader reader(bytes, "what an iteration was told");
  reader.version(kBatchVersion);
  BatchAnswers answers;
  answers.commands = reader.u64();
  answers.answers.resize(reader.count(12));
  for (BatchAnswer& answer : answers.answers) {
    answer.question = reader.u64();
    answer.scalars.resize(reader.count(8));
    for (double& scalar : answer.scalars) scalar = reader.f64();
  }
  reader.end();
  return answers;
}

}  // namespace convoy::server::coordinator
