// A coordinator of a batch optimization: what it keeps for the method, and says of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "convoy/base/error.h"
#include "server/service/portion_calls.h"
#include "tests/base/scratch.h"
#include "tests/server/coordinator/portion_requests.h"
#include "tests/server/coordinator/world.h"

namespace convoy::server::coordinator {
namespace {

using namespace test;
using calls::PortionAnswer;
using calls::WatchAnswer;
using calls::WatchRequest;

TEST(CoreBatchProgress, KeepsWhatTheMethodGoesOnFrom) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  BatchStart start;
  start.commands = 5;
  const BatchAnswers answers{5, {{1, {2.5}}}};
  world.storing = false;
  world.batch_event(world.core->keep_batch(world.now, 1, encode(start), {}));
  EXPECT_TRUE(world.kept.empty()) << "not before it is stored";
  world.store_now();
  EXPECT_EQ(world.kept, (std::vector<std::uint64_t>{1}));
  world.storing = true;
  world.batch_event(world.core->keep_batch(world.now, 2, std::nullopt, encode(answers)));
  world.cut_power();
  EXPECT_EQ(world.core->batch_start(), encode(start));
  EXPECT_EQ(world.core->batch_answers(), encode(answers));
  world.batch_event(world.core->keep_batch(world.now, 3, encode(start), {}));
  EXPECT_TRUE(world.core->batch_answers().empty());
}

WatchAnswer watch(World& world, std::uint64_t client, WatchRequest::Hold hold,
                  std::uint64_t after = 0) {
  return calls::decode_watch_answer(
      world.call(calls::kWatch, calls::encode(WatchRequest{client, after, hold})));
}

// Replica 1 is lost with a group that replica 2 gets again; 2 has a copy of what 3 is late with.
TEST(CoreBatchProgress, SaysWhoHadWhatWhen) {
  JobPlan plan = small_plan();
  plan.portion = 32;  // two of them
  World world(plan, BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join(), two = world.join();
  world.batch_event(world.core->begin_evaluation(world.now, {0, 0}));
  EXPECT_EQ(ask_for_portions(world, {one, {}, {}, {}, false}).group, (PortionGroup{0, 0}));
  EXPECT_EQ(ask_for_portions(world, {two, {}, {}, {}, false}).group, (PortionGroup{1, 0}));
  for (int i = 0; i < 4; ++i) {
    world.pass(400);
    world.beat(two);
  }
  PortionAnswer answer = ask_for_portions(world, finished_group(two, {0, 0}, {1, 0}));
  EXPECT_EQ(answer.group, (PortionGroup{0, 0}));
  EXPECT_FALSE(answer.copy);
  const std::uint64_t three = world.join();
  for (int i = 0; i < 40; ++i) {
    world.pass(400);
    world.beat(two);
    world.beat(three);
  }
  answer = ask_for_portions(world, {three, {}, {}, {}, false});
  EXPECT_EQ(answer.group, (PortionGroup{0, 0}));
  EXPECT_TRUE(answer.copy);
  world.send(calls::kPortions, calls::encode(finished_group(three, {0, 0}, {0, 0})));
  world.send(calls::kPortions, calls::encode(finished_group(two, {0, 0}, {0, 0})));

  world.core->count_method_bytes(300);
  world.core->count_method_bytes(4);
  const WatchAnswer said = watch(world, 0, WatchRequest::Hold::keep);
  const BatchProgress& progress = said.progress;
  EXPECT_EQ(progress.method_bytes, 304u);
  EXPECT_GT(progress.portion_bytes, 0u);
  EXPECT_EQ(progress.now, (PortionCounts{2, 1, 1, 1}));
  EXPECT_EQ(progress.all, progress.now);
  ASSERT_EQ(progress.replicas.size(), 3u);
  EXPECT_EQ(progress.replicas[0].portions, (PortionCounts{0, 0, 0, 0}));
  EXPECT_FALSE(progress.replicas[0].here);
  EXPECT_EQ(progress.replicas[1].portions, (PortionCounts{1, 1, 0, 1}));
  EXPECT_TRUE(progress.replicas[1].here);
  EXPECT_EQ(progress.replicas[2].portions, (PortionCounts{1, 0, 1, 0}));
  EXPECT_NEAR(progress.replicas[1].busy_s, 17.6, 1e-6);
  EXPECT_DOUBLE_EQ(progress.replicas[2].busy_s, 0);
  ASSERT_EQ(progress.groups.size(), 4u);
  using End = GroupRecord::End;
  const auto row = [&](std::size_t i) {
    const GroupRecord& record = progress.groups[i];
    EXPECT_EQ(record.number, i + 1);
    return std::tuple(record.replica, record.group.first, record.copy, record.end);
  };
  EXPECT_EQ(row(0), std::tuple(one, 0u, false, End::lost));
  EXPECT_EQ(row(1), std::tuple(two, 1u, false, End::counted));
  EXPECT_EQ(row(2), std::tuple(three, 0u, true, End::counted));
  EXPECT_EQ(row(3), std::tuple(two, 0u, false, End::unused));
  EXPECT_NEAR(progress.groups[3].ended_s - progress.groups[3].began_s, 16.0, 1e-6);
  EXPECT_EQ(watch(world, 0, WatchRequest::Hold::keep, 3).progress.groups.size(), 1u);

  const auto status = nlohmann::json::parse(
      calls::decode_text(world.call(calls::kStatus, calls::encode_nothing())));
  EXPECT_EQ(status["batch"]["all"]["portions_copied"], 1);
  ASSERT_EQ(status["batch"]["replicas"].size(), 2u);
  EXPECT_EQ(status["batch"]["replicas"][0]["portions_again"], 1);
  EXPECT_EQ(status["batch"]["gone"]["replicas"], 1);
  EXPECT_EQ(status["batch"]["over"], nullptr);
  EXPECT_EQ(status["batch"]["method_bytes"], 304);
  EXPECT_EQ(status["batch"]["portion_bytes"], progress.portion_bytes);
  const std::string metrics = metrics_text(world.core->facts());
  for (const char* line :
       {"\nconvoy_batch_iterations_total 0\n", "\nconvoy_batch_portions 2\n",
        "\nconvoy_batch_evaluation_portions_done 2\n", "\nconvoy_batch_method_bytes_total 304\n",
        ",became=\"unused\"} 1\n", "# TYPE convoy_batch_replica_busy_seconds_total counter\n"})
    EXPECT_NE(metrics.find(line), std::string::npos) << line << metrics;
}

// A replica tells again what it has done when the answer got lost, also another coordinator.
TEST(CoreBatchProgress, WhatIsToldAgainIsNotDoneTwice) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join();
  world.batch_event(world.core->begin_evaluation(world.now, {0, 0}));
  const PortionGroup group = ask_for_portions(world, {one, {}, {}, {}, false}).group;
  const auto tell = [&] {
    world.send(calls::kPortions, calls::encode(finished_group(one, {0, 0}, group)));
    return watch(world, 0, WatchRequest::Hold::keep).progress;
  };
  const std::uint64_t portions = portions_of(group);
  EXPECT_EQ(tell().now, (PortionCounts{portions, 0, 0, 0}));
  EXPECT_EQ(tell().now, (PortionCounts{portions, 0, 0, 0}));
  EXPECT_EQ(tell().all, (PortionCounts{portions, 0, 0, 0}));
  world.cut_power();
  const BatchProgress progress = tell();
  EXPECT_EQ(progress.now.done, portions);
  EXPECT_EQ(progress.now.unused, 0u);
  EXPECT_EQ(progress.all.unused, 0u);
}

TEST(CoreBatchProgress, EvaluatorsHoldVectorsUntilTheyLetGoOrAreGone) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join(ClientRole::evaluator);
  const std::uint64_t two = world.join(ClientRole::evaluator);
  const auto hold = [&](std::uint64_t client) {
    return watch(world, client, WatchRequest::Hold::hold);
  };
  EXPECT_TRUE(hold(one).start.empty());
  EXPECT_TRUE(world.core->batch_held().empty());
  BatchStart start;
  start.begun = true;
  start.state.iteration = 2;
  start.state.weights = {optim::VectorRole::weights, 2, 1};
  start.state.history = {2};
  const auto reach = [&] {
    world.batch_event(world.core->keep_batch(world.now, 1, encode(start), {}));
    return optim::vectors_of(start.state, optim::BatchMethod::lbfgs);
  };
  const auto second = reach();
  EXPECT_EQ(hold(one).start, encode(start));
  EXPECT_EQ(world.core->batch_held().size(), second.size());
  start.state.iteration = 3;
  start.state.weights = {optim::VectorRole::weights, 3, 0};
  const auto third = reach();
  hold(two);
  const auto both = world.core->batch_held();
  for (const auto& names : {second, third}) {
    for (const optim::VectorName& name : names)
      EXPECT_NE(std::find(both.begin(), both.end(), name), both.end()) << to_string(name);
  }
  watch(world, one, WatchRequest::Hold::let_go);
  EXPECT_EQ(world.core->batch_held().size(), third.size());
  watch(world, 0, WatchRequest::Hold::keep);
  EXPECT_EQ(world.core->batch_held().size(), third.size());
  world.pass(5000);  // longer than its lease
  world.tick();
  EXPECT_TRUE(world.core->batch_held().empty());
  EXPECT_THROW(hold(two), UsageError);
  EXPECT_THROW(hold(world.join()), UsageError) << "a replica";
}

// Scalar products are many, and who looks ten times a second has no use for them.
TEST(CoreBatchProgress, WhoHoldsNothingGetsNoProducts) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  const std::uint64_t evaluator = world.join(ClientRole::evaluator);
  BatchStart start;
  start.begun = true;
  start.commands = 9;
  start.state.iteration = 2;
  start.state.weights = {optim::VectorRole::weights, 2, 1};
  start.state.loss = 0.5;
  start.state.history = {1, 2};
  start.last.gradient_norm = 0.25;
  const optim::VectorName gradient = optim::gradient_of(start.state.weights);
  start.state.products[{gradient, gradient}] = 0.0625;
  world.batch_event(world.core->keep_batch(world.now, 1, encode(start), {}));
  BatchStart brief = start;
  brief.state.products.clear();
  using Hold = WatchRequest::Hold;
  EXPECT_EQ(watch(world, 0, Hold::keep).start, encode(brief));
  EXPECT_EQ(watch(world, evaluator, Hold::keep).start, encode(brief));
  EXPECT_EQ(watch(world, evaluator, Hold::hold).start, encode(start));
  EXPECT_EQ(watch(world, evaluator, Hold::keep).start, encode(brief));
  EXPECT_EQ(watch(world, evaluator, Hold::let_go).start, encode(brief));
  EXPECT_EQ(world.core->batch_start(), encode(start)) << "for the method";
  world.cut_power();
  EXPECT_EQ(watch(world, 0, Hold::keep).start, encode(brief));
}

TEST(CoreBatchProgress, EvaluatorsAreToldThatItCantGoOn) {
  World world(small_plan(), BatchGroups{});
  world.ready();
  const std::uint64_t one = world.join(ClientRole::evaluator);
  const std::uint64_t two = world.join(ClientRole::evaluator);
  const std::uint64_t replica = world.join();
  world.batch_event(world.core->batch_failed(world.now, "it can't go on"));
  EXPECT_FALSE(world.core->evaluators_know_failure());
  EXPECT_EQ(
      convoy::test::message_of<UsageError>([&] { watch(world, one, WatchRequest::Hold::keep); }),
      "it can't go on");
  EXPECT_FALSE(world.core->evaluators_know_failure());
  EXPECT_EQ(convoy::test::message_of<UsageError>([&] { world.beat(two); }), "it can't go on");
  EXPECT_TRUE(world.core->evaluators_know_failure());
  EXPECT_TRUE(world.beat(replica)) << "who starts the processes ends it";
  EXPECT_THROW(watch(world, 0, WatchRequest::Hold::keep), UsageError);
  EXPECT_EQ(world.progress().ended, "") << "it is not over";
}

// However many have come and gone.
TEST(CoreBatchProgress, ReplicasThatAreGoneAreANumber) {
  World world(small_plan(), BatchGroups{});
  world.ready(64 * 8);
  world.batch_event(world.core->begin_evaluation(world.now, {0, 0}));
  constexpr std::uint64_t kCame = GroupJournal::kMostGone + 20;
  std::uint64_t newest = 0;
  PortionCounts all;
  for (std::uint64_t i = 0; i < kCame; ++i) {
    newest = world.join();
    const PortionGroup group = ask_for_portions(world, {newest, {}, {}, {}, false}).group;
    if (i < 3) {
      world.send(calls::kPortions, calls::encode(finished_group(newest, {0, 0}, group)));
      all.done += portions_of(group);
    }
    world.call(calls::kLeave, calls::encode(calls::ClientRequest{newest}));
  }
  const std::uint64_t here = world.join();
  ask_for_portions(world, {here, {}, {}, {}, false});
  const BatchProgress progress = watch(world, 0, WatchRequest::Hold::keep).progress;
  ASSERT_EQ(progress.replicas.size(), GroupJournal::kMostGone + 1);
  EXPECT_EQ(progress.replicas.back().replica, here);
  EXPECT_TRUE(progress.replicas.back().here);
  EXPECT_FALSE(progress.replicas[GroupJournal::kMostGone - 1].here);
  EXPECT_EQ(progress.replicas[GroupJournal::kMostGone - 1].replica, newest);
  const auto batch = nlohmann::json::parse(
      calls::decode_text(world.call(calls::kStatus, calls::encode_nothing())))["batch"];
  ASSERT_EQ(batch["replicas"].size(), 1u);
  EXPECT_EQ(batch["replicas"][0]["replica"], here);
  EXPECT_EQ(batch["gone"]["replicas"], kCame);
  EXPECT_EQ(batch["gone"]["portions_done"], all.done);
  const std::string metrics = metrics_text(world.core->facts());
  EXPECT_NE(metrics.find("\nconvoy_batch_replicas_gone_total " + std::to_string(kCame) + "\n"),
            std::string::npos)
      << metrics;
  EXPECT_EQ(metrics.find("replica=\"" + std::to_string(newest) + "\""), std::string::npos)
      << metrics;
}

TEST(CoreBatchProgress, BeginsFromACheckpointOnce) {
  World world(small_plan(), BatchGroups{});
  world.ready(64, false);
  std::uint64_t evaluator = world.join(ClientRole::evaluator);
  BatchStart start;
  start.begun = true;
  start.state.iteration = 7;
  const auto begin_from = [&](const BatchStart& from) {
    world.call(calls::kBeginFrom, calls::encode(calls::BatchFrom{evaluator, encode(from)}));
  };
  begin_from(start);
  EXPECT_EQ(world.core->batch_start(), encode(start));
  world.cut_power();
  EXPECT_EQ(world.core->batch_start(), encode(start));
  evaluator = world.join(ClientRole::evaluator);
  BatchStart other = start;
  other.state.iteration = 8;
  begin_from(other);  // it has begun
  EXPECT_EQ(world.core->batch_start(), encode(start));
  other.commands = 3;
  EXPECT_THROW(begin_from(other), UsageError);
  EXPECT_THROW(begin_from({}), UsageError);
  world.batch_event(world.core->batch_over(world.now, "all 7 iterations are done"));
  EXPECT_EQ(watch(world, 0, WatchRequest::Hold::keep).progress.over, "all 7 iterations are done");
}

}  // namespace
}  // namespace convoy::server::coordinator
