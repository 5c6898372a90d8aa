// Values from the shards into the caller's memory.
#include <algorithm>
#include <deque>

#include "convoy/base/error.h"
#include "server/client/core.h"

namespace convoy::server::client {
namespace {

// Of an answer: large enough that its way costs more than its head, small enough that those under
// way take little memory and are decoded while the next ones come.
constexpr std::uint64_t kAnswerBytes = std::uint64_t{2} << 20;
constexpr std::size_t kUnderWay = 4;  // answers of one shard
constexpr std::size_t kScratch = 32768;

// Values that stand in a message from byte `at` on.
void decode(Encoding encoding, const transport::Message& message, std::size_t at,
            std::span<float> to) {
  if (encoding == Encoding::f32) return message.copy_to(std::as_writable_bytes(to), at);
  Bytes scratch(encoded_size(encoding, std::min(to.size(), kScratch)));
  while (!to.empty()) {
    const std::size_t count = std::min(to.size(), kScratch);
    const auto bytes = std::span(scratch).first(encoded_size(encoding, count));
    message.copy_to(bytes, at);
    EncodedValues(encoding, count, bytes).decode(0, to.first(count));
    to = to.subspan(count);
    at += bytes.size();
  }
}

}  // namespace

struct Core::Fetching {
  struct Piece {
    FetchRange range;
    std::size_t of = 0;  // in `slices`
    std::uint64_t unless = Versions::kNone;
    std::span<float> to;
  };
  struct Request {
    std::uint32_t shard = 0;
    std::vector<Piece> pieces;
  };

  // All pieces of these views, in requests whose answers are not too large.
  void plan(const Layout& layout, std::span<const WriteView> to, Versions* versions) {
    std::vector<std::vector<std::pair<const Place*, std::span<float>>>> of_shard(layout.shards());
    for (const WriteView& view : to) {
      for (const Place& place : layout.of_vector(view.vector)) {
        of_shard[place.shard].emplace_back(&place, view.values.subspan(place.begin, place.size));
      }
    }
    const std::uint64_t most = kAnswerBytes / encoded_size(encoding, 1);  // elements
    for (std::uint32_t shard = 0; shard < of_shard.size(); ++shard) {
      std::uint64_t room = 0;
      for (const auto& [place, values] : of_shard[shard]) {
        const std::uint64_t unless =
            versions != nullptr ? versions->begin(place->number, values.data()) : Versions::kNone;
        slices.push_back({place->number, values.data(), Versions::kNone, 0});
        std::uint64_t begin = 0;
        do {  // also of a slice without elements its version is asked
          const std::uint64_t size = std::min(most, place->size - begin);
          if (size > room || room == 0) {
            requests.push_back({shard, {}});
            room = most;
          }
          room -= size;
          requests.back().pieces.push_back({{place->slice, array, begin, size},
                                            slices.size() - 1,
                                            unless,
                                            values.subspan(begin, size)});
          begin += size;
        } while (begin < place->size);
      }
    }
  }

  calls::FetchRequest encoded(const Request& request) const {
    calls::FetchRequest fetch;
    fetch.shard = request.shard;
    fetch.cut = cut;
    fetch.encoding = encoding;
    for (const Piece& piece : request.pieces) fetch.ranges.push_back(piece.range);
    const bool known = std::any_of(request.pieces.begin(), request.pieces.end(),
                                   [](const Piece& p) { return p.unless != Versions::kNone; });
    for (const Piece& piece : request.pieces) {
      if (known) fetch.unless.push_back(piece.unless);
    }
    return fetch;
  }

  void take(const Request& request, const transport::Message& content) {
    const calls::Fetched fetched = calls::decode_fetched(content);
    if (fetched.versions.size() != request.pieces.size()) {
      throw Failure("fetch: shard " + std::to_string(request.shard) + " answered " +
                    std::to_string(fetched.versions.size()) + " ranges of " +
                    std::to_string(request.pieces.size()));
    }
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < request.pieces.size(); ++i) {
      if (fetched.sent[i]) bytes += encoded_size(encoding, request.pieces[i].to.size());
    }
    if (bytes != fetched.values.size()) {
      throw Failure("fetch: shard " + std::to_string(request.shard) + " sent " +
                    std::to_string(fetched.values.size()) + " bytes of values instead of " +
                    std::to_string(bytes));
    }
    std::size_t at = 0;
    for (std::size_t i = 0; i < request.pieces.size(); ++i) {
      const Piece& piece = request.pieces[i];
      Versions::Fetched& slice = slices[piece.of];
      slice.least = std::min(slice.least, fetched.versions[i]);
      slice.most = std::max(slice.most, fetched.versions[i]);
      if (!fetched.sent[i]) continue;
      decode(encoding, fetched.values, at, piece.to);
      at += encoded_size(encoding, piece.to.size());
    }
  }

  std::uint64_t cut = 0;
  std::uint32_t array = 0;
  Encoding encoding = Encoding::f32;
  std::vector<Request> requests;  // by shard
  std::vector<Versions::Fetched> slices;
};

void Core::fetch_all(Fetching& fetching) {
  Exchange exchange(directory_, traffic_, settings("fetch", Traffic::Kind::fetch));
  std::vector<std::deque<std::size_t>> left(plan_.shards);
  for (std::size_t i = 0; i < fetching.requests.size(); ++i) {
    left[fetching.requests[i].shard].push_back(i);
  }
  const auto ask_next = [&](std::uint32_t shard) {
    if (left[shard].empty()) return;
    const std::size_t next = left[shard].front();
    left[shard].pop_front();
    exchange.ask(next, shard, calls::kFetch, encode(fetching.encoded(fetching.requests[next])));
  };
  for (std::size_t i = 0; i < kUnderWay; ++i) {
    for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) ask_next(shard);
  }
  while (!exchange.empty()) {
    const Exchange::Result result = exchange.next();
    if (result.answer.outcome == calls::Outcome::refused) {
      throw Failure("fetch: shard " + std::to_string(result.shard) + ": " + result.answer.reason);
    }
    ask_next(result.shard);
    try {
      fetching.take(fetching.requests[result.tag], result.answer.content);
    } catch (const UsageError& error) {
      throw Failure("fetch: shard " + std::to_string(result.shard) + ": " + error.what());
    }
  }
}

void Core::fetch(std::span<const WriteView> to) {
  const auto parameters = this->parameters();
  parameters->layout.check(to);
  Fetching fetching;
  fetching.encoding = encoding_of(options_.fetch);
  fetching.plan(parameters->layout, to, &parameters->versions);
  fetch_all(fetching);
  parameters->versions.done(fetching.slices);
  traffic_.done(Traffic::Kind::fetch);
}

std::uint64_t Core::fetches() const {
  const std::lock_guard lock(mutex_);
  return parameters_ ? parameters_->versions.fetches() : 0;
}

// Exact, whatever the wire: checkpoints are made of it.
void Core::fetch_cut(const server::Cut& cut, std::uint32_t array, std::span<const WriteView> to) {
  const auto parameters = this->parameters();
  const Layout& layout = parameters->layout;
  layout.check(to);
  for (const WriteView& view : to) {
    const VectorSpec& vector = layout.description().vectors[view.vector];
    const std::size_t slots = vector.rule ? optim::slots(*vector.rule).size() : 0;
    if (array > slots) {
      throw UsageError("slot " + std::to_string(array - 1) + " of '" + vector.name +
                       "': its rule has " + std::to_string(slots) + " slots");
    }
  }
  Fetching fetching;
  fetching.cut = cut.id;
  fetching.array = array;
  fetching.plan(layout, to, nullptr);
  fetch_all(fetching);
}

}  // namespace convoy::server::client
