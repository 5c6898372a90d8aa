// A replica of a batch optimization, with a coordinator and shards that say what a test tells them.
#include "convoy/server/batch_worker.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <set>

namespace convoy::server::client::test {
namespace {

// Answers requests for groups from a script, whatever is asked.
struct ScriptedLeases {
  struct Asked {
    EvaluationId evaluation;
    std::vector<PortionGroup> held;
    std::vector<FinishedPortions> finished;
    bool at_once = false;
  };

  PortionLease lease(const EvaluationId& evaluation, std::span<const PortionGroup> held,
                     std::span<const FinishedPortions> finished, bool at_once) {
    asked.push_back(
        {evaluation, {held.begin(), held.end()}, {finished.begin(), finished.end()}, at_once});
    PortionLease next;
    if (script.empty()) {
      next.kind = PortionLease::Kind::finished;
      next.why = "the script is over";
      return next;
    }
    next = script.front();
    script.pop_front();
    return next;
  }
  void fetch(const optim::VectorName& name, std::span<const BatchView<double>> to) {
    const EvaluationId id{name.iteration, name.evaluation};
    if (gone.contains(id)) throw UsageError("there is no vector " + to_string(name));
    to.front().values.front() = static_cast<double>(name.iteration);
    fetched.push_back(id);
  }
  GroupAnswer add_group(const EvaluationId& id, const PortionGroup& group,
                        std::span<const BatchView<const double>>) {
    added.emplace_back(id, group);
    return GroupAnswer::kept;
  }

  std::deque<PortionLease> script;
  std::set<EvaluationId> gone;  // whose weights are
  std::vector<Asked> asked;
  std::vector<EvaluationId> fetched;
  std::vector<std::pair<EvaluationId, PortionGroup>> added;
};

class OneElement final : public PortionWork<double> {
 public:
  std::span<const BatchView<double>> weights() override { return {&view_, 1}; }
  void begin(const EvaluationId&) override {}
  double compute(std::uint32_t portion, std::span<double> gradient) override {
    gradient[0] = value_[0];
    return portion;
  }

 private:
  std::array<double, 1> value_{};
  BatchView<double> view_{0, value_};
};

PortionLease wait_of(const EvaluationId& id, std::vector<PortionGroup> unused = {}) {
  PortionLease lease;
  lease.evaluation = id;
  lease.portions = 8;
  lease.unused = std::move(unused);
  return lease;
}
PortionLease group_of(const EvaluationId& id, const PortionGroup& group) {
  PortionLease lease = wait_of(id);
  lease.kind = PortionLease::Kind::group;
  lease.group = group;
  return lease;
}

// Others have done all portions before a slow replica has fetched the weights, and these are freed.
TEST(PortionWorker, GoesOnWhereTheWeightsOfAnEvaluationThatIsOverAreGone) {
  const EvaluationId over{1, 0}, next{1, 1};
  const PortionGroup first{2, 1}, second{4, 0};
  for (const bool has_begun : {true, false}) {  // the next one
    ScriptedLeases leases;
    leases.gone = {over};
    leases.script = {group_of(over, first), wait_of(over)};
    leases.script.push_back(has_begun ? group_of(next, second) : wait_of(over, {first}));
    if (!has_begun) leases.script.push_back(group_of(next, second));
    leases.script.push_back(wait_of(next));
    OneElement work;
    PortionWorker<double, ScriptedLeases> worker(leases, work);
    EXPECT_EQ(worker.run(), "the script is over");
    EXPECT_EQ(leases.fetched, std::vector<EvaluationId>{next});
    ASSERT_EQ(leases.added.size(), 1u);
    EXPECT_EQ(leases.added[0], std::pair(next, second));
    ASSERT_EQ(leases.asked.back().finished.size(), 1u);
    EXPECT_EQ(leases.asked.back().finished[0].group, second);
    EXPECT_EQ(leases.asked.back().finished[0].losses, std::vector<double>{4});
  }
}

// Of an evaluation that goes on they have to be there.
TEST(PortionWorker, SaysWhereTheWeightsOfItsEvaluationAreNot) {
  const EvaluationId id{1, 0};
  ScriptedLeases leases;
  leases.gone = {id};
  leases.script = {group_of(id, {2, 1}), wait_of(id), wait_of(id)};
  OneElement work;
  PortionWorker<double, ScriptedLeases> worker(leases, work);
  EXPECT_THROW(worker.run(), UsageError);
}

}  // namespace
}  // namespace convoy::server::client::test
