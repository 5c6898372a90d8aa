// Downpour jobs from beginning to end.
#include "convoy/train/downpour.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "convoy/base/files.h"
#include "convoy/train/compute.h"
#include "convoy/train/export.h"
#include "convoy/train/safetensors.h"
#include "convoy/train/trained.h"
#include "tests/train/downpour_fixture.h"
#include "tests/train/maps_no_more.h"
#include "train/setup.h"
#include "train/strategies/downpour/evaluator.h"
#include "train/strategies/downpour/replica.h"

namespace convoy::train {
namespace {

// The mean over a batch is taken in two halves and then of these: other roundings of float32, a few
// of 6e-8 relative in each gradient. Ten updates of weights below 1 leave less than this of them.
constexpr double kRounding = 2e-5;

const char* const kRules[] = {
    "optimizer={name=\"sgd\", lr=0.05}", "optimizer={name=\"sgd\", lr=0.05, momentum=0.9}",
    "optimizer={name=\"adagrad\", lr=0.05}", "optimizer={name=\"adam\", lr=0.01}"};

TEST_F(DownpourTest, InRoundsItIsSynchronousSgd) {
  for (const std::string rule : kRules) {
    SCOPED_TRACE(rule);
    const RunResult mine = run(recipe({rule, "downpour.staleness_bound=0"}), {.overwrite = true});
    const RunResult sync = run_sync(sync_recipe({rule}), {.overwrite = true});
    ASSERT_FALSE(failed_);
    EXPECT_EQ(mine.steps, 10);
    EXPECT_EQ(job_->ended(), "all is trained");
    const State a = saved(mine.checkpoint), b = saved(sync.checkpoint);
    expect_same(a.model, b.model, kRounding);
    expect_same(a.optimizer, b.optimizer, kRounding);
    EXPECT_EQ(a.numbers.count("optimizer.step/fc.weight"),
              b.numbers.count("optimizer.step/fc.weight"));
    EXPECT_NEAR(mine.evaluation->at("loss"), sync.evaluation->at("loss"), 1e-4);
  }
}

TEST_F(DownpourTest, GoesOnInSyncAndFromSync) {
  const std::string rule = kRules[3];
  const Overrides rounds{rule, "downpour.staleness_bound=0"};
  const RunResult whole = run_sync(sync_recipe({rule}));
  ASSERT_FALSE(failed_);
  const auto with = [](Overrides overrides, const Overrides& more) {
    overrides.insert(overrides.end(), more.begin(), more.end());
    return overrides;
  };
  // One epoch on servers, the other without.
  const RunResult first = run(recipe(with(rounds, {"training.epochs=1"})));
  ASSERT_FALSE(failed_);
  const Overrides here{"output.folder=\"" + scratch_.path() + "/run\""};
  const RunResult second = run_sync(sync_recipe(with({rule}, here)), {.resume = "latest"});
  ASSERT_FALSE(failed_);
  EXPECT_EQ(second.steps, 10);
  expect_same(saved(second.checkpoint).model, saved(whole.checkpoint).model, kRounding);
  // The other way round, on other numbers of shards.
  const Overrides there{"output.folder=\"" + scratch_.path() + "/back\""};
  const RunResult third = run_sync(sync_recipe(with({rule, "training.epochs=1"}, there)));
  ASSERT_FALSE(failed_);
  const Manifest manifest = open_checkpoint(third.checkpoint);
  const RunResult fourth =
      run(recipe(with(with(rounds, there), {"downpour.shards=3", "training.epochs=2"})),
          {.resume = "latest"}, &manifest);
  ASSERT_FALSE(failed_);
  EXPECT_EQ(fourth.steps, 10);
  const State a = saved(fourth.checkpoint), b = saved(whole.checkpoint);
  expect_same(a.model, b.model, kRounding);
  expect_same(a.optimizer, b.optimizer, kRounding);
  EXPECT_EQ(a.numbers, b.numbers);
}

TEST_F(DownpourTest, ReplicasUseEverySampleOnce) {
  for (const std::string& pushes : {"1", "3"}) {
    SCOPED_TRACE(pushes);
    on_job = [this](testing_data::FakeJob& job) { begin_together(job, 3); };
    const Recipe r =
        recipe({"downpour.replicas=3", "downpour.n_push=" + pushes, "downpour.n_fetch=" + pushes,
                "downpour.portion=24", "training.batch=4", "training.epochs=3"});
    const RunResult result = run(r, {.overwrite = true});
    ASSERT_FALSE(failed_);
    EXPECT_EQ(result.steps, 45);
    std::uint64_t samples = 0;
    for (const ReplicaResult& replica : replicas_) {
      samples += replica.samples;
      EXPECT_EQ(replica.joined, 1u);
    }
    EXPECT_EQ(samples, 180u);
    std::map<std::uint64_t, std::vector<int>> times;
    for (const auto& used : job_->used()) {
      auto& epoch = times[used.portion.epoch];
      epoch.resize(60);
      for (std::uint64_t p = used.portion.begin; p < used.portion.begin + used.done; ++p)
        ++epoch[p];
    }
    ASSERT_EQ(times.size(), 3u);
    for (const auto& [epoch, counts] : times) EXPECT_EQ(counts, std::vector<int>(60, 1)) << epoch;
  }
}

TEST_F(DownpourTest, AReplicaThatIsGivenUpLosesNoPortion) {
  std::atomic<bool> dropped{false};
  on_job = [&](testing_data::FakeJob& job) {
    job.before_push = [&](std::uint64_t client, std::uint64_t pushes) {
      if (client == 1 && pushes == 2 && !dropped.exchange(true)) job.drop(client);
      // The other one doesn't do all of it meanwhile.
      if (client == 2) wait_until([&] { return job.clients() >= 3 || !job.ended().empty(); });
    };
  };
  const RunResult result = run(recipe(
      {"downpour.replicas=2", "downpour.portion=20", "training.batch=4", "downpour.n_push=1"}));
  ASSERT_FALSE(failed_);
  EXPECT_TRUE(dropped);
  EXPECT_EQ(replicas_[0].joined + replicas_[1].joined, 3u);
  std::vector<int> times(120);
  for (const auto& used : job_->used()) {
    for (std::uint64_t p = used.portion.begin; p < used.portion.begin + used.done; ++p)
      ++times[used.portion.epoch * 60 + p];
  }
  EXPECT_EQ(times, std::vector<int>(120, 1));
  EXPECT_EQ(result.steps, 30);
}

// Also where it stood still before its first mini-batch, of one process or several.
TEST_F(DownpourTest, AReplicaThatIsGivenUpWhileItJoinsBeginsAnew) {
  for (const std::uint64_t partitions : {1, 2}) {
    on_job = [&](testing_data::FakeJob& job) {
      job.on_catch_up = [&job, partitions](std::uint64_t client) {
        if (client <= partitions) job.drop(client);
      };
    };
    const RunResult result =
        run(recipe({kRules[0], "downpour.staleness_bound=0", "downpour.replicas=1",
                    "grid.partitions=" + std::to_string(partitions)}),
            {.overwrite = true});
    ASSERT_FALSE(failed_);
    EXPECT_EQ(result.steps, 10);
    EXPECT_EQ(replicas_[0].joined, 2u);
  }
}

// A job that is over by the time a replica joins is no failure of the replica's.
TEST_F(DownpourTest, AReplicaThatComesBehindTheEndEndsInOrder) {
  on_job = [&](testing_data::FakeJob& job) {
    job.before_join = [&job] { testing_data::FakeService(job).end_job("enough"); };
  };
  run(recipe());
  ASSERT_FALSE(failed_);
  for (const ReplicaResult& replica : replicas_) {
    EXPECT_EQ(replica.ended, "enough");
    EXPECT_EQ(replica.joined, 0u);
  }
}

TEST_F(DownpourTest, MetricsAndFolderAreThoseOfARun) {
  const RunResult result = run(recipe({"downpour.portion=12", "checkpoint.every_steps=3"}));
  ASSERT_FALSE(failed_);
  std::istringstream lines(read_text_file(result.folder + "/metrics.jsonl"));
  std::map<std::string, int> kinds;
  nlohmann::json step;
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    ++kinds[row["kind"]];
    if (row["kind"] == "step") step = row;
  }
  EXPECT_EQ(kinds["run"], 1);
  EXPECT_EQ(kinds["end"], 1);
  EXPECT_GE(kinds["step"], 1);
  EXPECT_GE(kinds["evaluation"], 1);
  EXPECT_GE(kinds["checkpoint"], 1);
  EXPECT_EQ(step["staleness"].size(), 36u);
  EXPECT_EQ(step["used_twice"], 0);
  EXPECT_EQ(result.evaluation->samples, 30u);
  // Commands that use what was trained open it.
  const TrainedSource source = find_trained(registry_, result.folder, Which::newest, {});
  on_thread([&](comm::World& world) {
    Trained trained(world, registry_, source);
    EXPECT_EQ(trained.task().outputs(), 3);
  });
  join();
}

// One process has the whole of a network whose replicas divided it; as many as divided it do again.
TEST_F(DownpourTest, OfDividedReplicasIsUsedByOneProcess) {
  const RunResult result = run(recipe({"downpour.replicas=1", "grid.partitions=2"}));
  ASSERT_FALSE(failed_);
  const TrainedSource source = find_trained(registry_, result.folder, Which::newest, {});
  const auto data = std::make_shared<testing_data::Stripes>(30);
  std::atomic<int> used{0};
  for (const int ranks : {1, 2}) {
    on_thread(
        [&](comm::World& world) {
          Trained trained(world, registry_, source);
          const Evaluation score = trained.evaluate(data);
          EXPECT_EQ(score.at("top1"), result.evaluation->at("top1"));
          EXPECT_NEAR(score.at("loss"), result.evaluation->at("loss"), 1e-5);
          EXPECT_EQ(score.samples, 30u);
          std::size_t answers = 0;
          trained.predict(data, 1, [&](const auto& batch) { answers += batch.size(); });
          if (world.rank() == 0) EXPECT_EQ(answers, 30u);
          ++used;
        },
        ranks);
    join();
  }
  EXPECT_EQ(used, 3);
  const std::string file = scratch_.path() + "/whole.safetensors";
  export_model(result.checkpoint, file, false);
  const SafetensorsFile whole(file);
  for (const TensorView& view : whole.tensors()) {
    if (view.shape.size() == 2 && view.name.find("fc1") != std::string::npos)
      EXPECT_EQ(view.shape[0], 16);
  }
}

// It has no gradients, and no activations of a mini-batch that others train on.
TEST_F(DownpourTest, AnEvaluatorNeedsNoMemoryToTrain) {
  const Recipe r = recipe({"grid.partitions=2", "training.batch=200000", "evaluation.batch=10",
                           "model.options.hidden=[2000]"});
  std::string of_evaluator = "nothing", of_replica;  // on the first rank
  comm::World::run_threads(2, [&](comm::World& world) {
    const Compute compute(r);
    const auto task = registry_.make_task(r);
    const testing_data::Stripes data(60);
    task->look(data, nullptr);
    const RecipeNetwork source(registry_, r, *task, compute);
    Evaluator evaluator(nullptr);
    Replica replica(nullptr);
    evaluator.arrange(world, r);
    replica.arrange(world, r);
    const auto said = [&source](Strategy& strategy) {
      return test::message_of<UsageError>([&] { strategy.build(source); });
    };
    world.communicator().barrier();
    std::optional<test::MapsNoMore> limit;
    if (world.rank() == 0) limit.emplace(400 << 20);
    world.communicator().barrier();
    const std::string first = said(evaluator), second = said(replica);
    world.communicator().barrier();
    if (world.rank() == 0) of_evaluator = first, of_replica = second;
  });
  EXPECT_EQ(of_evaluator, "");
  EXPECT_NE(of_replica.find(", to train it (parameters, gradients, the optimizer's state, and "
                            "activations of 200000 samples), and can have "),
            std::string::npos)
      << of_replica;
}

// It keeps one copy of the parameters and the rules' slots. Where it begins from a checkpoint, it
// gives servers these from as many blocks.
TEST_F(DownpourTest, AnEvaluatorNeedsMemoryForSlots) {
  const auto needs_mib = [this](const std::string& rule, bool goes_on) {
    const Recipe r = recipe(
        {rule, "grid.partitions=2", "evaluation.batch=10", "model.options.hidden=[4000, 4000]"});
    std::string said;
    comm::World::run_threads(2, [&](comm::World& world) {
      const Compute compute(r);
      const auto task = registry_.make_task(r);
      const testing_data::Stripes data(60);
      task->look(data, nullptr);
      const RecipeNetwork source(registry_, r, *task, compute, /*trains=*/true, goes_on);
      Evaluator evaluator(nullptr);
      evaluator.arrange(world, r);
      world.communicator().barrier();
      std::optional<test::MapsNoMore> limit;
      if (world.rank() == 0) limit.emplace(40 << 20);
      world.communicator().barrier();
      const std::string own = test::message_of<UsageError>([&] { evaluator.build(source); });
      world.communicator().barrier();
      if (world.rank() == 0) said = own;
    });
    const std::string needs = " needs ", unit = " MiB for ";
    const std::size_t at = said.find(needs), end = said.find(unit);
    EXPECT_TRUE(at != std::string::npos && end != std::string::npos && at < end) << said;
    EXPECT_NE(said.find("to evaluate it while others train it"), std::string::npos) << said;
    return end == std::string::npos ? 0.0 : std::stod(said.substr(at + needs.size()));
  };
  // Half of them are a rank's, of four bytes.
  const double parameters = 36 * 4000 + 4000 + 4000 * 4000 + 4000 + 4000 * 3 + 3;
  const double copy_mib = parameters / 2 * 4 / (1 << 20);
  const std::string sgd = kRules[0], adam = kRules[3];
  const double none = needs_mib(sgd, false);
  EXPECT_EQ(needs_mib(sgd, true), none);
  EXPECT_NEAR(needs_mib(adam, false) - none, 2 * copy_mib, 2);
  EXPECT_NEAR(needs_mib(adam, true) - none, 4 * copy_mib, 2);
}

// Nothing is said of a loss that nobody has told: not that it is 0.
TEST_F(DownpourTest, HasNoLossWithoutReports) {
  on_job = [](testing_data::FakeJob& job) { job.deaf = true; };
  const RunResult result = run(recipe());
  ASSERT_FALSE(failed_);
  int epochs = 0;
  std::istringstream rows(test::slurp(result.folder + "/metrics.jsonl"));
  for (std::string text; std::getline(rows, text);) {
    const auto row = nlohmann::json::parse(text);
    if (row.at("kind") != "epoch") continue;
    ++epochs;
    EXPECT_TRUE(row.at("loss").is_null()) << text;
  }
  EXPECT_GE(epochs, 1);  // whoever sees both over at once has one row for them
}

TEST_F(DownpourTest, StopsWithACheckpointAndGoesOn) {
  std::atomic<bool> stop{false};
  std::atomic<int> pushes{0};
  on_job = [&](testing_data::FakeJob& job) {
    job.after_push = [&](std::uint64_t) {
      if (++pushes < 6) return;
      stop = true;
      wait_until(
          [&] { return !job.ended().empty(); });  // else all might be done before it is heard
    };
  };
  const Recipe r = recipe({"training.batch=4", "training.epochs=20", "downpour.portion=8"});
  const RunResult first = run(r, {.should_stop = [&] { return stop.load(); }});
  ASSERT_FALSE(failed_);
  EXPECT_TRUE(first.stopped);
  EXPECT_EQ(job_->ended(), "its evaluator was told to stop");
  const Manifest manifest = open_checkpoint(first.checkpoint);
  EXPECT_GT(manifest.step, 0);
  on_job = {};
  const RunResult second = run(r, {.resume = "latest"}, &manifest);
  ASSERT_FALSE(failed_);
  EXPECT_FALSE(second.stopped);
  EXPECT_EQ(second.steps, 300);
}

// Told to stop in an evaluation which took so long that its cut isn't kept any more: there is a
// checkpoint all the same, with the states of the rule.
TEST_F(DownpourTest, StopsWithACheckpointOfACutThatIsGone) {
  std::atomic<bool> stop{false};
  on_job = [this](testing_data::FakeJob& job) { wait_for_cuts(job, 25); };
  const Recipe r = recipe({"training.epochs=2000", "optimizer.momentum=0.9",
                           "checkpoint.every_epochs=0", "data.validation.size=3000"});
  const RunResult result = run(r, {.should_stop = [&] {
                                 if (job_->drop_cut(1)) stop = true;  // in the second evaluation
                                 return stop.load();
                               }});
  ASSERT_FALSE(failed_);
  EXPECT_TRUE(result.stopped);
  ASSERT_FALSE(result.checkpoint.empty());
  EXPECT_FALSE(saved(result.checkpoint).optimizer.empty());
}

// A coordinator counts samples. Whatever mini-batches they make: when it has handed out all, all is
// done, with an evaluation and a checkpoint.
TEST_F(DownpourTest, EndsWhenAllIsHandedOut) {
  const Recipe r = recipe({"training.epochs=0", "training.steps=6"});
  on_job = [&](testing_data::FakeJob& job) { job.limit(60); };  // five of twelve
  const RunResult result = run(r);
  ASSERT_FALSE(failed_);
  EXPECT_FALSE(result.stopped);
  EXPECT_EQ(result.steps, 6);
  ASSERT_TRUE(result.evaluation);
  ASSERT_FALSE(result.checkpoint.empty());
  EXPECT_EQ(open_checkpoint(result.checkpoint).step, 6);
}

// A half of the last round that is there already is no step: what is evaluated and saved then isn't
// the end, and the end is evaluated and saved as well.
TEST_F(DownpourTest, TheEndIsSavedBehindHalfARound) {
  std::atomic<int> last{0};
  on_job = [&](testing_data::FakeJob& job) {
    job.before_push = [&](std::uint64_t, std::uint64_t pushes) {
      if (pushes < 9 || last++ == 0) return;
      const std::uint64_t before = job.cuts();
      for (int i = 0; i < 50 && job.cuts() == before; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    };
  };
  const RunResult mine =
      run(recipe({kRules[1], "downpour.staleness_bound=0", "evaluation.every_steps=1"}));
  const RunResult sync = run_sync(sync_recipe({kRules[1]}));
  ASSERT_FALSE(failed_);
  EXPECT_EQ(mine.steps, 10);
  expect_same(saved(mine.checkpoint).model, saved(sync.checkpoint).model, kRounding);
  EXPECT_NEAR(mine.evaluation->at("loss"), sync.evaluation->at("loss"), 1e-4);
}

TEST_F(DownpourTest, TheRecipeOfMnistTrains) {
  const Recipe r =
      parse_recipe(read_recipe_file(test::source_folder() + "/recipes/mnist-downpour.toml"),
                   {"output.folder=\"" + scratch_.path() + "/mnist\"", "training.batch=16",
                    "training.steps=60", "downpour.warm_steps=20", "downpour.portion=64",
                    "evaluation.fraction=0.02", "output.tensorboard=false", "threads=1"},
                   registry_.vocabulary());
  on_job = [this, &r](testing_data::FakeJob& job) {
    begin_together(job, static_cast<std::uint64_t>(downpour_of(r).replicas));
  };
  const RunResult result = run(r);
  ASSERT_FALSE(failed_);
  EXPECT_GE(result.steps, 60);
  EXPECT_EQ(result.evaluation->samples, 200u);
  EXPECT_GT(result.evaluation->at("top1"), 0.3);
  for (const ReplicaResult& replica : replicas_) EXPECT_EQ(replica.joined, 1u);
}

TEST_F(DownpourTest, EndsAtItsTarget) {
  on_job = [this](testing_data::FakeJob& job) { wait_for_cuts(job, 25); };
  const RunResult result = run(recipe(
      {"training.epochs=400", "training.target={metric=\"top1\", level=0.5}", "optimizer.lr=0.1"}));
  ASSERT_FALSE(failed_);
  EXPECT_TRUE(result.target_reached);
  EXPECT_EQ(job_->ended(), "training.target is reached");
}

}  // namespace
}  // namespace convoy::train
