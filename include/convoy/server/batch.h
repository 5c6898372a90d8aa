// Batch optimization on a parameter server: the vectors of an optimizer lie in slices on the
// shards, and gradients of portions of a batch are summed there (Dean et al. 2012, section 4.2,
// Sandblaster). Free of Torch, MPI and gRPC.
#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/optim/batch.h"
#include "convoy/optim/space.h"

namespace convoy::server {

class Client;
namespace client {
class Core;
}

// The type of all elements of a job's vectors, and of the sums of gradients.
enum class Element : std::uint8_t { f32 = 0, f64 = 1 };

// One evaluation of the objective: its weights are the vector {weights, iteration, evaluation}, its
// gradient {gradient, iteration, evaluation}.
struct EvaluationId {
  std::int64_t iteration = 0;
  std::int32_t evaluation = 0;
  auto operator<=>(const EvaluationId&) const = default;
};
std::string to_string(const EvaluationId& id);  // "12.3"

// Portions first to first + 2^log2_size - 1 of an evaluation's batch; `first` is a multiple of
// their number, and all of them are there.
struct PortionGroup {
  std::uint32_t first = 0;
  std::uint8_t log2_size = 0;
  constexpr std::uint64_t end() const { return first + (std::uint64_t{1} << log2_size); }
  auto operator<=>(const PortionGroup&) const = default;
};

struct PortionRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool operator==(const PortionRange&) const = default;
};

// Sums portions' gradients as shards sum groups: in one binary tree over the numbers of portions,
// so that the sum of all has the same bits however portions were grouped. Keeps one vector for each
// level of the tree.
template <typename T>
class PortionSum {
 public:
  // The next portion's gradient: the sum over its samples. All have as many elements.
  void add(std::span<const T> values) {
    if (levels_ > 0 && values.size() != sums_.front().size()) {
      throw UsageError("a portion's gradient has " + std::to_string(values.size()) +
                       " elements, the one before has " + std::to_string(sums_.front().size()));
    }
    if (sums_.size() == levels_) sums_.emplace_back();
    sums_[levels_++].assign(values.begin(), values.end());
    for (std::uint64_t left = portions_++; left % 2 == 1; left /= 2) {
      --levels_;
      for (std::size_t i = 0; i < values.size(); ++i) sums_[levels_ - 1][i] += sums_[levels_][i];
    }
  }
  std::uint64_t portions() const { return portions_; }
  // The sum of all that were added, of which there are a power of two; the next portion begins
  // another group. Good until then. Throws UsageError for another number.
  std::span<const T> take() {
    if (levels_ != 1) {
      throw UsageError("a group has 1, 2, 4, 8, ... portions; this one has " +
                       std::to_string(portions_));
    }
    levels_ = 0;
    portions_ = 0;
    return sums_.front();
  }
  // Forgets what was added.
  void clear() { levels_ = 0, portions_ = 0; }

 private:
  std::vector<std::vector<T>> sums_;  // of ascending levels of the tree from the last one down
  std::size_t levels_ = 0;            // of `sums_` that are in use
  std::uint64_t portions_ = 0;
};

// Where the values of a vector of JobDescription::vectors are in this process, all of them.
template <typename T>
struct BatchView {
  std::uint32_t vector = 0;
  std::span<T> values;
};

// What became of a group, or of the parts of it that this process has.
enum class GroupAnswer : std::uint8_t {
  kept,     // by some shard at least, and no other one refused it
  had,      // all shards had these portions before
  ended,    // the evaluation is over, for some shard at least
  overlaps  // a shard has some of these portions and lacks others of them; it added nothing
};

// What a replica has done, and all shards have.
struct FinishedPortions {
  PortionGroup group;
  std::vector<double> losses;  // of each portion, the sum over its samples
};

// What a replica is told to do.
struct PortionLease {
  enum class Kind : std::uint8_t { group, wait, finished };
  Kind kind = Kind::wait;      // wait: ask again at once. finished: the job is over, `why`
  EvaluationId evaluation;     // what it holds of another one is of no use any more
  std::uint32_t portions = 0;  // of a batch
  PortionGroup group;
  bool copy = false;                 // another replica has it, too
  std::vector<PortionGroup> unused;  // of those it holds: others have done them
  std::string why;
};

// Portions, by what became of them.
struct PortionCounts {
  std::uint64_t done = 0;    // each counted once an evaluation
  std::uint64_t again = 0;   // handed out again, since who had them, or a shard, has lost them
  std::uint64_t copies = 0;  // handed out while another replica had them: backups
  std::uint64_t unused = 0;  // computed by one that was not the first
  bool operator==(const PortionCounts&) const = default;
};

// A group that a replica had, by its coordinator's clock.
struct GroupRecord {
  enum class End : std::uint8_t {
    counted = 0,  // it was the first to be done with it
    unused = 1,   // another one was
    lost = 2      // its replica is gone, or nobody needs the evaluation any more
  };
  std::uint64_t number = 0;  // 1, 2, ... of one coordinator
  EvaluationId evaluation;
  PortionGroup group;
  std::uint64_t replica = 0;
  bool copy = false;  // another replica had it when this one got it
  End end = End::counted;
  double began_s = 0, ended_s = 0;  // since the coordinator began; from when it was its first one
};

// A replica that this coordinator has seen.
struct BatchReplica {
  std::uint64_t replica = 0;  // the number of its first process
  std::string name;
  bool here = false;  // still
  PortionCounts portions;
  double busy_s = 0;  // that it had a group
};

// How far a batch optimization is. What is counted, but for the state's own numbers, is what the
// coordinator of this term has seen.
struct BatchProgress {
  std::string ended;           // why the job is over; empty while it isn't
  bool begun = false;          // the first evaluation is done: there is a state
  optim::BatchState state;     // where the next iteration begins
  optim::BatchIteration last;  // how the one before ended
  std::string over;            // why there is no next one; empty while there is
  optim::BatchMethod method = optim::BatchMethod::lbfgs;
  EvaluationId evaluation;     // the newest
  std::uint32_t portions = 0;  // of each
  PortionCounts now;           // of that evaluation
  PortionCounts iteration;     // of all evaluations of the iteration that ended last
  PortionCounts all;           // of all
  std::uint64_t term = 0;      // which coordinator it is
  double time_s = 0;           // since it began
  // Bytes that went through this coordinator: between its method and the shards, and of replicas'
  // requests for portions with their answers.
  std::uint64_t method_bytes = 0, portion_bytes = 0;
  std::vector<BatchReplica> replicas;  // ascending
  std::vector<GroupRecord> groups;     // ascending; old ones are forgotten
};

// The longest history that L-BFGS may have on a parameter server: what is known of more steps, the
// scalar products of all of their vectors with each other, fits into no message to a coordinator.
inline constexpr int kLongestHistory = 992;

// What coordinator, replicas and evaluators ask shards for, through a client that has described the
// network or joined. Vectors of a space are all vectors of the description that have a rule (which
// is not used); statistics are in none.
//
// Threads: as the client's other calls: one after the other, but add_group(), which may be called
// by another thread beside them. The client has to outlive this.
//
// Calls throw UsageError for what the caller has to change, a vector that isn't there among it, and
// Failure when the client's patience is over.
class BatchClient {
 public:
  explicit BatchClient(Client& client);
  explicit BatchClient(client::Core& core);  // for tests

  // --- to begin with ---
  // Tells the shards what they hold, and of which type; has no effect said again.
  void open(Element element);
  // Gives a vector its values. The parts of a divided network may come from several processes; who
  // is the first with a part has given it. The vector is there when all parts are.
  void put(const optim::VectorName& name, std::span<const BatchView<const float>> values);
  void put(const optim::VectorName& name, std::span<const BatchView<const double>> values);
  // Of a checkpoint, before initialized(): its vectors are there under their names, and the
  // coordinator goes on from it. Without effect where the optimization has begun already.
  void begin_from(const optim::BatchState& state);
  // Lets replicas join, if the weights that it begins with are there on all shards: whether they
  // are.
  bool initialized(const optim::VectorName& weights = {});

  // --- a replica's work ---
  // Values of a vector, rounded if the space has doubles and floats are asked for. Waits for
  // weights of an evaluation that is yet to begin. Those of one that is over may be gone, which is
  // a UsageError: lease() says whether it is over.
  void fetch(const optim::VectorName& name, std::span<const BatchView<float>> to);
  void fetch(const optim::VectorName& name, std::span<const BatchView<double>> to);
  // Adds the gradient of a group of portions, summed by a PortionSum, of the vectors that this
  // process has. Of the space's own type. Empty `values` of a vector: zeros.
  GroupAnswer add_group(const EvaluationId& id, const PortionGroup& group,
                        std::span<const BatchView<const float>> values);
  GroupAnswer add_group(const EvaluationId& id, const PortionGroup& group,
                        std::span<const BatchView<const double>> values);

  // Asks the coordinator for a group, of this or another evaluation. `held`: those that it has, the
  // one that it works on first; it is given one more than that. `at_once`: it has something to do
  // meanwhile; else it is told when there is something, after some seconds at the latest. Throws
  // Failure when this client was taken for dead. Of a replica of several processes one asks, for
  // all of them.
  PortionLease lease(const EvaluationId& evaluation, std::span<const PortionGroup> held,
                     std::span<const FinishedPortions> finished, bool at_once);

  // --- an evaluator's ---
  // How far the optimization is, with the records of groups whose number is larger than `after`, a
  // few thousand at most. `hold`: the state's vectors stay on the shards until the next time that
  // this client holds some, lets go, or is gone. What is fetched of them may be gone all the same,
  // when an iteration has ended just then or the coordinator has begun again: fetch() throws
  // UsageError, and the next state's are there. An observer can't hold. The state has its scalar
  // products (BatchState::products) with `hold` alone. Throws UsageError, with the coordinator's
  // reason, where the optimization can't go on; Failure when the client's patience is over.
  BatchProgress watch(std::uint64_t after = 0, bool hold = false);
  void let_go();

  // --- the coordinator's ---
  // These are numbered, 1, 2, ...: a shard does nothing for a number that is not larger than the
  // last one that it has done. 0: without a number.
  void combine(std::uint64_t ordinal, const optim::VectorName& into,
               std::span<const optim::Term> terms);
  void multiply(std::uint64_t ordinal, const optim::VectorName& into, const optim::VectorName& a,
                const optim::VectorName& b);
  void keep(std::uint64_t ordinal, std::span<const optim::VectorName> names);
  // Opens an evaluation of so many portions and ends the one before.
  void evaluate(std::uint64_t ordinal, const EvaluationId& id, std::uint32_t portions);
  std::vector<double> dots(std::span<const optim::VectorPair> pairs);
  // Makes the gradient: `scale` times the sum over all portions, plus `also`. Returns the portions
  // that some shard lacks, ascending; none when all shards have the gradient. Shards that lack none
  // have it then in any case.
  std::vector<PortionRange> seal(const EvaluationId& id, double scale,
                                 std::span<const optim::Term> also);
  // The same without making anything.
  std::vector<PortionRange> missing(const EvaluationId& id);

 private:
  client::Core& core_;
};

// The space that lies on shards. Gives its commands ascending numbers, also those that fail, so
// that a coordinator that begins an iteration again repeats them under the same ones.
class ShardSpace final : public optim::Space {
 public:
  // `last`: the number of the last command that was given.
  explicit ShardSpace(BatchClient& shards, std::uint64_t last = 0) : shards_(shards), last_(last) {}

  std::vector<double> dots(std::span<const optim::VectorPair> pairs) override;
  void combine(const optim::VectorName& into, std::span<const optim::Term> terms) override;
  void multiply(const optim::VectorName& into, const optim::VectorName& a,
                const optim::VectorName& b) override;
  void keep(std::span<const optim::VectorName> names) override;
  void evaluate(const EvaluationId& id, std::uint32_t portions);

  std::uint64_t last() const { return last_; }
  // Counts a command that isn't given, since it is known to be done.
  void skip() { ++last_; }

 private:
  BatchClient& shards_;
  std::uint64_t last_;
};

}  // namespace convoy::server
