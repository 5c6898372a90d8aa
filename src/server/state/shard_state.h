// One shard of a parameter server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/exact_sum.h"
#include "server/state/batch_commands.h"
#include "server/state/machine.h"
#include "server/state/shard_data.h"

namespace convoy::server {

// The reply to a command that is refused.
Reply refused(Status status, std::string message);

// Elements begin to begin + size - 1 of one array of a slice.
struct FetchRange {
  std::uint32_t slice = 0;
  std::uint32_t array = 0;  // 0: the values; 1, 2, ...: the slots of the rule's state
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

struct ClientStatus {
  std::uint64_t id = 0;
  ClientRecord client;
  bool operator==(const ClientStatus&) const = default;
};

struct ShardStatus {
  std::uint64_t applied = 0;
  std::uint64_t round = 0;
  std::vector<std::uint64_t> versions;  // of the slices; 0 for those without values
  std::vector<ClientStatus> clients;    // by id
  std::vector<std::uint64_t> cuts;      // ids
  std::size_t collected = 0;            // pushes that wait for their round
  StalenessHistogram staleness;
  Ledger ledger;
};

// What a shard says of a batch optimizer's vectors.
struct BatchStatus {
  std::optional<Element> element;  // none: it has no space
  std::uint64_t ordinal = 0;       // of the last numbered command that was done
  std::optional<OpenEvaluation> open;
  std::optional<EvaluationId> newest;  // that was ever opened
  bool sealed = false;                 // the open one's gradient is there
  std::uint64_t bytes = 0;             // of all vectors
  std::uint64_t spare_bytes = 0;       // of vectors that are gone, for the next ones
  bool slices = false;                 // parameters of pushes and fetches have values, too
  std::vector<optim::VectorName> vectors;
};

// Vectors changed by the commands of commands.h (Dean et al. 2012, section 4.1: a shard applies the
// rule to each gradient that it is sent). No clock, no random number and no thread of its own.
//
// A push changes the state once: its client and sequence number are remembered with the reply,
// which a repeated one gets again. So each client makes its pushes to a shard one after the other:
// the next one when it has the reply to the one before. Ids of clients are never used for another
// client, also after `forget`.
class ShardState final : public StateMachine {
 public:
  // Definitions that need more than `memory_limit` bytes are refused; the same on all nodes.
  explicit ShardState(std::uint64_t memory_limit = std::uint64_t{1} << 40);

  // Has large updates done in so many parts side by side: parallel(n, part) calls part(0) to
  // part(n - 1), by any threads, and returns when all have; what one of them threw it then throws,
  // but no UsageError, which says that a command changed nothing. The state becomes the same.
  // Before anything else is called; `parallel` may be called by several threads at once.
  using Part = std::function<void(std::size_t part)>;
  using Parallel = std::function<void(std::size_t parts, const Part& part)>;
  void use(std::size_t parts, Parallel parallel);

  Bytes apply(std::uint64_t index, std::span<const std::byte> command) override;
  std::uint64_t applied() const override;
  std::shared_ptr<const StateImage> image() const override;
  void load(SnapshotSource& source) override;

  // From here on: any thread, at any time. No call waits longer than the update of one stripe (of
  // 65536 elements) takes.

  // Writes values as they are now and returns the slice's version: they have at least that many
  // updates; other stripes may have more. Throws UsageError when the slice isn't there or has no
  // values, the range is not in it, the encoding is `fill` or `to` hasn't the size of the encoded
  // values.
  std::uint64_t fetch(const FetchRange& range, Encoding encoding, std::span<std::byte> to) const;
  // As they were at a cut, all of the same index. Throws for a cut that isn't there, too.
  std::uint64_t fetch_cut(std::uint64_t cut, const FetchRange& range, Encoding encoding,
                          std::span<std::byte> to) const;

  // The same without a copy: float32 where they stand, one view after the other. While somebody has
  // them, an update writes what it changes elsewhere.
  struct View {
    std::span<const float> values;
    BlockPtr block;  // keeps them as they are
  };
  std::uint64_t view(const FetchRange& range, std::vector<View>& to) const;
  std::uint64_t view_cut(std::uint64_t cut, const FetchRange& range, std::vector<View>& to) const;

  std::optional<Definition> definition() const;  // with the rates of now
  ShardStatus status() const;
  // The pushes that are in a cut: the last one of each client. Throws UsageError without that cut.
  LastPushes last_pushes(std::uint64_t cut) const;

  // --- a batch optimizer's vectors ---
  BatchStatus batch() const;
  // Elements of each slice in a space; 0 for those of statistics.
  std::vector<std::uint64_t> space_sizes() const;
  // Throws UsageError when nothing has this name, or a part is missing.
  BatchVectorPtr vector(const optim::VectorName& name) const;
  // The shard's part of scalar products, each vector read once. Throws the same.
  std::vector<ExactSum> dots(std::span<const optim::VectorPair> pairs) const;

 private:
  // A command that is being applied.
  struct Context {
    std::uint64_t index;
    std::span<const std::byte> bytes;  // all of it
    Reader& reader;                    // behind its number
  };
  using Handler = Reply (ShardState::*)(Context&);
  struct Entry {
    CommandNumber number;
    Handler handler;
  };
  static const Entry kCommands[];

  Reply define(Context& context);
  Reply initialize(Context& context);
  Reply push(Context& context);
  Reply set_rates(Context& context);
  Reply join(Context& context);
  Reply leave(Context& context);
  Reply forget(Context& context);
  Reply cut(Context& context);
  Reply drop_cut(Context& context);

  Reply space(Context& context);
  Reply put(Context& context);
  Reply combine(Context& context);
  Reply multiply(Context& context);
  Reply keep(Context& context);
  Reply evaluate(Context& context);
  Reply gradient(Context& context);
  // Carries out a command with a number, unless that was done before.
  Reply numbered(std::uint64_t ordinal, const std::function<Reply()>& carry_out);
  Reply check_slices(std::span<const BatchSlice> slices) const;
  BatchVectorPtr find_vector(const optim::VectorName& name) const;
  bool complete(const BatchVector& vector) const;
  std::uint64_t batch_bytes() const;
  std::uint64_t space_bytes() const;  // of one vector
  BatchArrayPtr array_of(const BatchValues& values) const;
  // Makes `into` of vectors that are there.
  using MakeElements = std::function<BatchElements(std::vector<BatchVectorPtr> from)>;
  Reply make_vector(const Context& context, const optim::VectorName& into,
                    std::span<const optim::VectorName> from, const MakeElements& elements);

  struct Found;  // a slice to read, and its version
  Found find(const FetchRange& range) const;
  Found find_in_cut(std::uint64_t cut, const FetchRange& range) const;

  Reply decide(const Push& push, const ClientRecord& client,
               std::vector<std::uint64_t>& staleness) const;
  void note_statistics(const Push& push);
  // Members whose pushes have had this slice without a rule.
  std::ptrdiff_t pushers(std::uint32_t slice) const;
  void apply_now(const Push& push, const std::vector<std::uint64_t>& staleness);
  void complete_round();
  // The gradient's elements from `begin` on, so many of them; in scratch memory, or where they
  // stand.
  struct Scratch {
    std::vector<float> sum, one;
  };
  using Gradient = std::function<std::span<const float>(std::uint64_t begin, std::size_t count,
                                                        Scratch& scratch)>;
  void update(ShardSlice& slice, const std::optional<optim::Rule>& rule, float scale,
              const Gradient& gradient) const;
  bool finite(const EncodedValues& values) const;
  // Calls each(begin, end) for ranges that make up 0 to stripes - 1.
  void in_parts(std::size_t stripes,
                const std::function<void(std::size_t begin, std::size_t end)>& each) const;
  std::string who(std::uint64_t id) const;

  const std::uint64_t memory_limit_;
  const std::shared_ptr<ArrayPool> arrays_ = std::make_shared<ArrayPool>();
  std::size_t parts_ = 1;
  Parallel parallel_;
  // The applying thread alone changes data_, and holds this while it does; so it reads without. The
  // values of slices have locks of their own.
  mutable std::shared_mutex mutex_;
  ShardData data_;
};

}  // namespace convoy::server
