// A batch optimizer's vectors on the shards.
#include <algorithm>
#include <deque>
#include <type_traits>
#include <utility>

#include "convoy/base/error.h"
#include "server/client/core.h"
#include "server/client/lending.h"
#include "server/service/batch_calls.h"
#include "server/state/batch_commands.h"

namespace convoy::server::client {
namespace {

using transport::Message;

constexpr std::uint64_t kVectorAnswerBytes = std::uint64_t{2} << 20;
constexpr std::size_t kVectorsUnderWay = 4;  // answers of one shard
constexpr std::size_t kConverted = 4096;     // elements at a time

template <typename T>
constexpr Element element_of() {
  return std::is_same_v<std::remove_const_t<T>, double> ? Element::f64 : Element::f32;
}

template <typename T>
BatchValues batch_values(std::span<const T> values) {
  return {element_of<T>(), false, values.size(), std::as_bytes(values)};
}

// From byte `at` of a message.
template <typename From, typename T>
void convert(const Message& message, std::size_t at, std::span<T> to) {
  std::vector<From> some(std::min(to.size(), kConverted));
  while (!to.empty()) {
    const auto now = std::span(some).first(std::min(to.size(), kConverted));
    message.copy_to(std::as_writable_bytes(now), at);
    for (std::size_t i = 0; i < now.size(); ++i) to[i] = static_cast<T>(now[i]);
    at += now.size_bytes();
    to = to.subspan(now.size());
  }
}

template <typename T>
void take_values(Element element, const Message& message, std::size_t at, std::span<T> to) {
  if (element == element_of<T>()) {
    message.copy_to(std::as_writable_bytes(to), at);
  } else if (element == Element::f64) {
    convert<double>(message, at, to);
  } else {
    convert<float>(message, at, to);
  }
}

// That all are of the description, have a rule, and are whole; `zeros`: or have no values.
template <typename T>
void check_views(const JobDescription& description, std::span<const BatchView<T>> views,
                 bool zeros) {
  std::vector<bool> seen(description.vectors.size());
  for (const BatchView<T>& view : views) {
    if (view.vector >= seen.size()) {
      throw UsageError("there is no vector " + std::to_string(view.vector) + "; the job has " +
                       std::to_string(seen.size()));
    }
    const VectorSpec& vector = description.vectors[view.vector];
    if (!vector.rule) {
      throw UsageError("'" + vector.name + "' is a statistic: it is no part of a space");
    }
    if (view.values.size() != vector.elements && !(zeros && view.values.empty())) {
      throw UsageError(std::to_string(view.values.size()) + " values for vector '" + vector.name +
                       "'; it has " + std::to_string(vector.elements) + " elements");
    }
    if (seen[view.vector]) {
      throw UsageError("vector '" + vector.name + "' is there twice; give it once");
    }
    seen[view.vector] = true;
  }
}

// By shard, ascending slices; views without values are zeros.
template <typename T>
std::map<std::uint32_t, std::vector<BatchSlice>> slices_of(
    const Layout& layout, std::span<const BatchView<const T>> views) {
  std::map<std::uint32_t, std::vector<BatchSlice>> shards;
  for (const BatchView<const T>& view : views) {
    for (const Place& place : layout.of_vector(view.vector)) {
      const BatchValues zeros{element_of<T>(), true, place.size, {}};
      shards[place.shard].push_back(
          {place.slice, view.values.empty()
                            ? zeros
                            : batch_values<T>(view.values.subspan(place.begin, place.size))});
    }
  }
  for (auto& [shard, slices] : shards) {
    std::sort(slices.begin(), slices.end(),
              [](const BatchSlice& a, const BatchSlice& b) { return a.slice < b.slice; });
  }
  return shards;
}

std::vector<std::span<const std::byte>> arrays_of(const std::vector<BatchSlice>& slices) {
  std::vector<std::span<const std::byte>> arrays;
  for (const BatchSlice& slice : slices) arrays.push_back(slice.values.bytes);
  return arrays;
}

std::string at_shard(const char* what, std::uint32_t shard) {
  return std::string(what) + ": shard " + std::to_string(shard) + ": ";
}

}  // namespace

// --- commands ---

void Core::batch_commands(const char* what,
                          const std::vector<std::pair<std::uint32_t, Message>>& commands) {
  Exchange exchange(directory_, traffic_, settings(what, Traffic::Kind::batch));
  for (const auto& [shard, command] : commands) {
    exchange.ask(shard, shard, calls::kCommand, calls::command_request(shard, command));
  }
  while (!exchange.empty()) take_batch_reply(what, exchange.next());
}

void Core::take_batch_reply(const char* what, const Exchange::Result& result) {
  const std::string about = at_shard(what, result.shard);
  if (result.answer.outcome == calls::Outcome::refused) throw Failure(about + result.answer.reason);
  const Reply reply = decode_reply(result.answer.content.gather());
  switch (reply.status) {
    case Status::done: {
      const std::lock_guard lock(mutex_);
      std::uint64_t& after = batch_after_[result.shard];
      after = std::max(after, reply.index);
      return;
    }
    case Status::no_vector:
    case Status::conflict:
    case Status::wrong_shape:
    case Status::full:
      throw UsageError(about + reply.message);
    default:
      throw Failure(about + std::string(name(reply.status)) + ": " + reply.message);
  }
}

void Core::batch_command(const char* what, const Bytes& command) {
  std::vector<std::pair<std::uint32_t, Message>> commands;
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    commands.emplace_back(shard, Message::copy_of(command));
  }
  batch_commands(what, commands);
}

std::uint64_t Core::batch_after(std::uint32_t shard) {
  const std::lock_guard lock(mutex_);
  return batch_after_[shard];
}

void Core::open_space(Element element) {
  const auto parameters = this->parameters();
  std::vector<std::pair<std::uint32_t, Message>> definitions;
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    definitions.emplace_back(shard,
                             Message::of(define_command(parameters->layout.definition(shard))));
  }
  batch_commands("definition", definitions);
  batch_command("space", space_command(element));
}

template <typename T>
void Core::put_vector(const optim::VectorName& name, std::span<const BatchView<const T>> values) {
  const auto parameters = this->parameters();
  const Layout& layout = parameters->layout;
  const JobDescription& description = layout.description();
  check_views<const T>(description, values, false);
  auto shards = slices_of<T>(layout, values);
  // Those that have nothing have it, too: vectors of no elements.
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    const auto& places = layout.of_shard(shard);
    if (std::none_of(places.begin(), places.end(), [&](const Place& place) {
          return description.vectors[place.vector].rule.has_value();
        })) {
      shards.try_emplace(shard);
    }
  }
  Lending lending(directory_);
  Exchange exchange(directory_, traffic_, settings("initial vector"));
  for (const auto& [shard, slices] : shards) {
    const Message command = lending.message(put_pieces(0, name, slices), arrays_of(slices));
    exchange.ask(shard, shard, calls::kCommand, calls::command_request(shard, command));
  }
  while (!exchange.empty()) take_batch_reply("initial vector", exchange.next());
}

template void Core::put_vector<float>(const optim::VectorName&,
                                      std::span<const BatchView<const float>>);
template void Core::put_vector<double>(const optim::VectorName&,
                                       std::span<const BatchView<const double>>);

bool Core::batch_initialized(const optim::VectorName& weights) {
  Exchange exchange(directory_, traffic_, settings("vectors", Traffic::Kind::batch));
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    exchange.ask(shard, shard, calls::kVectors, calls::report_request(shard));
  }
  bool all = true;
  while (!exchange.empty()) {
    const Exchange::Result result = exchange.next();
    if (result.answer.outcome == calls::Outcome::refused) {
      throw Failure(at_shard("vectors", result.shard) + result.answer.reason);
    }
    const auto there = calls::decode_batch_status(result.answer.content).vectors;
    all &= std::find(there.begin(), there.end(), weights) != there.end();
  }
  if (all) ask(calls::kInitialized, calls::encode_nothing());
  return all;
}

// --- values ---

template <typename T>
void Core::fetch_vector(const optim::VectorName& name, std::span<const BatchView<T>> to) {
  const auto parameters = this->parameters();
  const Layout& layout = parameters->layout;
  check_views<T>(layout.description(), to, false);
  struct Piece {
    calls::VectorRange range;
    std::span<T> to;
  };
  std::vector<std::deque<std::vector<Piece>>> left(plan_.shards);  // requests of each shard
  for (const BatchView<T>& view : to) {
    for (const Place& place : layout.of_vector(view.vector)) {
      const std::uint64_t most = kVectorAnswerBytes / sizeof(T);
      for (std::uint64_t begin = 0; begin < place.size; begin += most) {
        const std::uint64_t size = std::min(most, place.size - begin);
        auto& requests = left[place.shard];
        std::uint64_t have = 0;
        if (!requests.empty()) {
          for (const Piece& piece : requests.back()) have += piece.range.size;
        }
        if (requests.empty() || have + size > most) requests.emplace_back();
        requests.back().push_back(
            {{place.slice, begin, size}, view.values.subspan(place.begin + begin, size)});
      }
    }
  }
  Exchange exchange(directory_, traffic_, settings("fetch", Traffic::Kind::fetch));
  std::vector<std::vector<Piece>> asked;
  const auto ask_next = [&](std::uint32_t shard) {
    if (left[shard].empty()) return;
    calls::VectorRequest request;
    request.shard = shard;
    request.after = batch_after(shard);
    request.name = name;
    for (const Piece& piece : left[shard].front()) request.ranges.push_back(piece.range);
    exchange.ask(asked.size(), shard, calls::kVector, encode(request));
    asked.push_back(std::move(left[shard].front()));
    left[shard].pop_front();
  };
  for (std::size_t i = 0; i < kVectorsUnderWay; ++i) {
    for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) ask_next(shard);
  }
  while (!exchange.empty()) {
    const Exchange::Result result = exchange.next();
    const std::string about = at_shard("fetch", result.shard);
    if (result.answer.outcome == calls::Outcome::refused) {
      throw UsageError(about + result.answer.reason);
    }
    ask_next(result.shard);
    const calls::VectorValues values = calls::decode_vector_values(result.answer.content);
    std::size_t bytes = 0;
    for (const Piece& piece : asked[result.tag]) bytes += piece.to.size() * size_of(values.element);
    if (bytes != values.values.size()) {
      throw Failure(about + "it sent " + std::to_string(values.values.size()) +
                    " bytes of values instead of " + std::to_string(bytes));
    }
    std::size_t at = 0;
    for (const Piece& piece : asked[result.tag]) {
      take_values(values.element, values.values, at, piece.to);
      at += piece.to.size() * size_of(values.element);
    }
  }
  traffic_.done(Traffic::Kind::fetch);
}

template void Core::fetch_vector<float>(const optim::VectorName&,
                                        std::span<const BatchView<float>>);
template void Core::fetch_vector<double>(const optim::VectorName&,
                                         std::span<const BatchView<double>>);

// --- groups ---

template <typename T>
GroupAnswer Core::add_group(const EvaluationId& id, const PortionGroup& group,
                            std::span<const BatchView<const T>> values) {
  const auto parameters = this->parameters();
  const Layout& layout = parameters->layout;
  check_views<const T>(layout.description(), values, true);
  const auto shards = slices_of<T>(layout, values);
  Lending lending(directory_);
  Exchange exchange(directory_, traffic_, settings("group", Traffic::Kind::push, membership()));
  for (const auto& [shard, slices] : shards) {
    const calls::GroupRequest request{shard, id, group, slices};
    exchange.ask(shard, shard, calls::kGroup,
                 lending.message(calls::group_pieces(request), arrays_of(slices)));
  }
  GroupAnswer worst = GroupAnswer::had;
  while (!exchange.empty()) {
    const Exchange::Result result = exchange.next();
    if (result.answer.outcome == calls::Outcome::refused) {
      throw UsageError(at_shard("group", result.shard) + result.answer.reason);
    }
    const GroupAnswer answer = calls::decode_group_answer(result.answer.content);
    if (worst == GroupAnswer::had || (answer != GroupAnswer::had && answer > worst)) worst = answer;
  }
  traffic_.done(Traffic::Kind::push);
  return worst;
}

template GroupAnswer Core::add_group<float>(const EvaluationId&, const PortionGroup&,
                                            std::span<const BatchView<const float>>);
template GroupAnswer Core::add_group<double>(const EvaluationId&, const PortionGroup&,
                                             std::span<const BatchView<const double>>);

std::vector<PortionRange> Core::portions(const char* what, std::string_view method,
                                         const std::function<Message(std::uint32_t)>& request) {
  Exchange exchange(directory_, traffic_, settings(what, Traffic::Kind::batch));
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    exchange.ask(shard, shard, method, request(shard));
  }
  std::vector<PortionRange> missing;
  while (!exchange.empty()) {
    const Exchange::Result result = exchange.next();
    if (result.answer.outcome == calls::Outcome::refused) {
      throw UsageError(at_shard(what, result.shard) + result.answer.reason);
    }
    const calls::Sealed sealed = calls::decode_sealed(result.answer.content);
    missing = united(std::move(missing), sealed.missing);
  }
  return missing;
}

std::vector<PortionRange> Core::seal(const EvaluationId& id, double scale,
                                     std::span<const optim::Term> also) {
  return portions("seal", calls::kSeal, [&](std::uint32_t shard) {
    return encode(calls::SealRequest{shard, id, scale, {also.begin(), also.end()}});
  });
}

std::vector<PortionRange> Core::missing(const EvaluationId& id) {
  return portions("missing portions", calls::kMissing, [&](std::uint32_t shard) {
    return encode(calls::EvaluationRequest{shard, id});
  });
}

// --- scalars ---

std::vector<double> Core::dots(std::span<const optim::VectorPair> pairs) {
  Exchange exchange(directory_, traffic_, settings("scalar products", Traffic::Kind::batch));
  for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
    exchange.ask(
        shard, shard, calls::kDots,
        encode(calls::DotsRequest{shard, batch_after(shard), {pairs.begin(), pairs.end()}}));
  }
  std::vector<ExactSum> sums(pairs.size());
  while (!exchange.empty()) {
    const Exchange::Result result = exchange.next();
    const std::string about = at_shard("scalar products", result.shard);
    if (result.answer.outcome == calls::Outcome::refused) {
      throw UsageError(about + result.answer.reason);
    }
    const std::vector<ExactSum> parts = calls::decode_sums(result.answer.content);
    if (parts.size() != sums.size()) {
      throw Failure(about + std::to_string(parts.size()) + " answers to " +
                    std::to_string(sums.size()) + " questions");
    }
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add(parts[i]);
  }
  std::vector<double> values;
  for (const ExactSum& sum : sums) values.push_back(sum.value());
  return values;
}

}  // namespace convoy::server::client
