// The trainer with the strategy sync, on as many ranks as the job has.
#include "convoy/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/data/loader.h"
#include "convoy/train/evaluate.h"
#include "tests/train/read_timeline.h"
#include "tests/train/trainer_fixture.h"
#include "train/setup.h"

namespace convoy::train {
namespace {

// The reference: a plain LibTorch loop in one process over whole batches in the same order.
struct PlainLoop {
  PlainLoop(bool norm, bool drop_last) : net((torch::manual_seed(1), 3), norm, 0) {
    net.to(torch::kDouble);
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const testing_data::Stripes data(61);
    const std::size_t used = drop_last ? 60 : 61;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      const data::EpochOrder order(61, 1, epoch);
      for (std::size_t begin = 0; begin < used; begin += 12) {
        std::vector<torch::Tensor> images;
        std::vector<std::int64_t> labels;
        for (const std::size_t i : order.samples({begin, std::min(begin + 12, used)})) {
          std::vector<std::byte> scratch;
          const data::Record record = data.read(i, scratch);
          torch::Tensor image = torch::empty({1, 6, 6});
          std::memcpy(image.mutable_data_ptr(), record.bytes.data(), record.bytes.size());
          images.push_back(image.to(torch::kDouble));
          labels.push_back(record.label);
        }
        optimizer.param_groups()[0].options().set_lr(
            0.1 * (1 + std::cos(std::acos(-1.0) * (epoch + begin / 61.0) / 3)) / 2);
        optimizer.zero_grad();
        const torch::Tensor value = torch::nn::functional::cross_entropy(
            net.forward(torch::stack(images)), torch::tensor(labels));
        value.backward();
        optimizer.step();
        loss = value.item<double>();
      }
    }
  }

  void expect_equal(const RunResult& result) const {
    EXPECT_NEAR(result.loss, loss, 1e-9);
    const State state =
        read_checkpoint(result.checkpoint, open_checkpoint(result.checkpoint), 0, 1);
    State mine;
    describe_module(net, mine);
    ASSERT_EQ(state.model.size(), mine.model.size());
    for (const auto& [name, tensor] : mine.model) {
      const torch::Tensor difference = state.model.at(name) - tensor;
      EXPECT_LT(difference.abs().max().item<double>(), 1e-9) << name;
    }
  }

  testing_data::Small net;
  double loss = 0;
};

// float64 over 18 steps: rounding alone stays under 1e-12; 1e-9 leaves room for another order.
TEST_F(TrainerTest, EqualsAPlainLoop) {
  const RunResult result = train(recipe("plain"));
  EXPECT_EQ(result.steps, 18);  // 61 samples: 5 full batches and one of 1, on any number of ranks
  PlainLoop(false, false).expect_equal(result);
}

TEST_F(TrainerTest, AccumulationChangesNothing) {
  const std::string one = train(recipe("one")).checkpoint;
  const std::string three = train(recipe("three", {"training.accumulate=3"})).checkpoint;
  EXPECT_LT(largest_difference(one, three), 1e-9);
}

TEST_F(TrainerTest, SynchronizedBatchNormEqualsAPlainLoop) {
  const int ranks = test_world().size();
  const std::string norm = "model.options.norm=true";
  const std::string sync = "sync.batch_norm=synchronized";
  if (61 % 12 < ranks && ranks > 1) {
    EXPECT_THROW(train(recipe("refused", {norm, sync})), UsageError);
  }
  const RunResult result = train(recipe("sync", {norm, sync, "data.drop_last=true"}));
  EXPECT_EQ(result.steps, 15);
  PlainLoop(true, true).expect_equal(result);
}

// In one process: each micro-batch is that of all ranks together.
State united_micro_batches(const Registry& registry, const Recipe& r) {
  torch::manual_seed(static_cast<std::uint64_t>(r.seed));
  testing_data::Small net(3, true, 0);
  net.to(torch::kDouble);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const auto task = registry.make_task(r);
  const auto data = registry.open_data(r.data.reader, r.data.train);
  task->look(*data, nullptr);
  const Compute compute(r);
  const int ranks = test_world().size(), parts = static_cast<int>(r.training.accumulate);
  std::vector<std::unique_ptr<data::Loader>> loaders;
  for (int rank = 0; rank < ranks; ++rank) {
    data::LoaderOptions options;
    options.batch = static_cast<std::size_t>(r.training.batch);
    options.seed = static_cast<std::uint64_t>(r.seed);
    options.rank = rank;
    options.world = ranks;
    options.layout = compute.layout();
    loaders.push_back(std::make_unique<data::Loader>(data, training_transform(r.data), options));
  }
  for (int step = 0; step < r.training.steps; ++step) {
    optimizer.zero_grad();
    std::vector<const data::Batch*> shares;
    for (auto& loader : loaders) shares.push_back(loader->next());
    for (int part = 0; part < parts; ++part) {
      TaskBatch united;
      for (const data::Batch* share : shares) {
        const TaskBatch rows =
            task->tensors(*share, data::even_share({0, share->size()}, part, parts), compute);
        for (const auto& [name, tensor] : rows.tensors) {
          torch::Tensor& all = united.tensors[name];
          all = all.defined() ? torch::cat({all, tensor}) : tensor.clone();
        }
        united.weight += rows.weight;
      }
      const torch::Tensor loss = task->loss(net.run(task->inputs(united)), united);
      (loss * (united.weight / static_cast<double>(r.training.batch))).backward();
    }
    optimizer.step();
  }
  State state;
  describe_module(net, state);
  return state;
}

// 9 samples: shares that are not the same, nor are their micro-batches.
TEST_F(TrainerTest, SynchronizedBatchNormInUnevenMicroBatchesEqualsOneProcess) {
  const Recipe r =
      recipe("uneven", {"model.options.norm=true", "sync.batch_norm=synchronized",
                        "data.drop_last=true", "training.batch=9", "training.accumulate=2",
                        "training.epochs=0", "training.steps=3", "schedule.name=constant"});
  const State state = state_of(train(r).checkpoint);
  for (const auto& [name, tensor] : united_micro_batches(registry_, r).model)
    EXPECT_LT((state.model.at(name) - tensor).abs().max().item<double>(), 1e-9) << name;
}

// Everything that could differ after a resume is in here: momentum or moments, statistics of each
// rank, dropout, the order of summation, the schedule and the position in the epoch.
class ResumeTest : public TrainerTest, public testing::WithParamInterface<const char*> {};

TEST_P(ResumeTest, GoesOnToTheSameBits) {
  const std::vector<std::string> overrides{"model.options.norm=true", "model.options.dropout=0.3",
                                           "precision=float32",       "data.drop_last=true",
                                           "training.accumulate=2",   GetParam()};
  std::vector<std::string> all = overrides;
  if (std::string(GetParam()) != "optimizer.name=sgd") {
    all.insert(all.end(), {"optimizer.lr=0.01", "optimizer.momentum=0"});
  }
  if (std::string(GetParam()) == "optimizer.name=lars") {
    all.insert(all.end(), {"optimizer.lr=5", "optimizer.momentum=0.9",
                           "optimizer.groups=[{max_dims=1, lr_scale=0.02}]"});
  }
  const Recipe whole = recipe("whole", all), parts = recipe("parts", all);
  const std::string expected = train(whole).checkpoint;
  RunResult part = train(parts, 1);
  EXPECT_TRUE(part.stopped);
  EXPECT_EQ(part.steps, 1);
  part = train(parts, 6, "latest");  // into the second epoch
  EXPECT_EQ(part.steps, 7);
  part = train(parts, 0, part.checkpoint);
  EXPECT_FALSE(part.stopped);
  EXPECT_EQ(part.steps, 15);
  if (test_world().rank() != 0) return;
  EXPECT_TRUE(same_tensors(expected, part.checkpoint));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ResumeTest,
                         testing::Values("optimizer.name=sgd", "optimizer.name=adam",
                                         "optimizer.name=adamw", "optimizer.name=adagrad",
                                         "optimizer.name=lars", "optimizer.name=lamb"),
                         [](const auto& info) { return std::string(info.param).substr(15); });

// A new network, evaluated by the ranks of a communicator.
Evaluation evaluate_new(const Registry& registry, const Recipe& r, const comm::Communicator& ranks,
                        const EvaluationOptions& options = {}) {
  const auto data = registry.open_data(r.data.reader, r.data.validation);
  const auto task = registry.make_task(r);
  task->look(*data, nullptr);
  const Compute compute(r);
  const auto strategy = registry.make_strategy(r.strategy);
  strategy->build(RecipeNetwork(registry, r, *task, compute));
  const Arrangement arrangement{.share = ranks.rank(), .shares = ranks.size(), .group = {}};
  return evaluate({ranks, r, *task, compute, arrangement, *strategy}, data, options);
}

// As a checkpoint that can't be written does.
TEST_F(TrainerTest, WhatEndsAnEvaluationLeavesNothingUnderWay) {
  const comm::Communicator ranks = all().duplicate();
  EvaluationOptions options;
  int calls = 0;
  options.between_batches = [&] {
    if (++calls == 3) throw Failure("the disk is full");
  };
  EXPECT_EQ(test::message_of<Failure>([&] {
              evaluate_new(registry_, recipe("ended", {"evaluation.batch=4"}), ranks, options);
            }),
            "the disk is full");
  EXPECT_NO_THROW(ranks.barrier());
}

TEST_F(TrainerTest, EvaluationByAllEqualsEvaluationByOne) {
  const Recipe r = recipe("evaluation", {"evaluation.batch=7", "data.validation.size=41"});
  const comm::Communicator& all = test_world().communicator();
  const Evaluation together = evaluate_new(registry_, r, all);
  const Evaluation alone = evaluate_new(registry_, r, all.split(all.rank()));
  EXPECT_EQ(alone.samples, 41u);
  EXPECT_GT(alone.at("top1"), 0);
  EXPECT_LT(alone.at("top1"), 1);
  EXPECT_EQ(together.samples, alone.samples);
  EXPECT_EQ(together.at("top1"), alone.at("top1"));
  EXPECT_EQ(together.at("top5"), alone.at("top5"));
  EXPECT_NEAR(together.at("loss"), alone.at("loss"), 1e-12);
}

TEST_F(TrainerTest, EvaluationOfDifferentDataIsAMistakeOnEveryRank) {
  if (test_world().size() == 1) GTEST_SKIP() << "needs two ranks";
  const int rank = test_world().rank();
  const Recipe r = recipe("mine", {"data.validation.size=" + std::to_string(40 + rank)});
  const std::string message = test::message_of<UsageError>(
      [&] { evaluate_new(registry_, r, test_world().communicator()); });
  EXPECT_EQ(message.find("rank 1: data.validation is another data set than on rank 0: 41 samples"),
            0u)
      << message;
}

TEST_F(TrainerTest, MetricsOfAResumedRunHaveEachStepOnce) {
  const Recipe r = recipe("metrics", {"output.log_samples=true"});
  train(r, 4);
  train(recipe("metrics", {"output.log_samples=true", "checkpoint.keep=1"}), 0, "latest");
  all().barrier();
  if (!first()) return;
  int expected = 1;
  for (const auto& row : rows(r, "step")) EXPECT_EQ(row["step"], expected++);
  EXPECT_EQ(expected, 19);
  EXPECT_EQ(rows(r, "evaluation").size(), 3u);
  for (const auto& row : rows(r, "evaluation")) EXPECT_EQ(row["samples"], 40);
  expect_each_once(r, 3 * 61);
}

// What is left out of an epoch ends it all the same.
TEST_F(TrainerTest, DropLastLeavesTheEndsOfEpochsWhereTheyAre) {
  const Recipe r = recipe("drop", {"data.drop_last=true", "checkpoint.keep=9"});
  const RunResult result = train(r);
  EXPECT_EQ(result.steps, 15);
  all().barrier();
  if (!first()) return;
  for (const char* kind : {"evaluation", "epoch", "checkpoint"}) {
    int step = 0;
    for (const auto& row : rows(r, kind)) EXPECT_EQ(row["step"], step += 5) << kind;
    EXPECT_EQ(step, 15) << kind;
  }
  const auto steps = rows(r, "step");
  ASSERT_EQ(steps.size(), 15u);
  EXPECT_NEAR(steps[3]["epoch"].get<double>(), 48 / 61.0, 1e-12);
  EXPECT_EQ(steps[4]["epoch"], 1);
  EXPECT_EQ(open_checkpoint(result.checkpoint).position, (data::Position{2, 0, {{0, 61}}}));
}

// Neither the evaluation of every other update nor the one at its end is in the time of an epoch.
TEST_F(TrainerTest, TheTimeOfAnEpochIsThatOfItsUpdates) {
  const Recipe r = recipe("rate", {"evaluation.every_steps=2"});
  train(r);
  all().barrier();
  if (!first()) return;
  const auto steps = rows(r, "step");
  const auto epochs = rows(r, "epoch");
  ASSERT_EQ(epochs.size(), 3u);
  std::size_t at = 0;
  for (const auto& epoch : epochs) {
    double seconds = 0, samples = 0;
    for (; at < steps.size() && steps[at]["step"] <= epoch["step"]; ++at) {
      for (const char* phase :
           {"data_s", "forward_s", "backward_s", "exposed_communication_s", "update_s"}) {
        seconds += steps[at][phase].get<double>();
      }
      samples += steps[at]["samples"].get<double>();
    }
    EXPECT_NEAR(epoch["time_s"].get<double>(), seconds, 1e-9);
    EXPECT_NEAR(epoch["images_per_s"].get<double>() * seconds, samples, 1e-6);
  }
}

TEST_F(TrainerTest, TheLastEvaluationIsSaidWithWhatItIsOf) {
  const RunResult stopped = train(recipe("line"), 8);
  EXPECT_EQ(stopped.evaluated_at, 6);
  const std::string line = evaluation_line(stopped);
  EXPECT_EQ(line.find("validation: top-1 "), 0u) << line;
  EXPECT_NE(line.find(" of 40 samples, after step 6"), std::string::npos) << line;
  const RunResult whole = train(recipe("training", {"evaluation.from=training"}));
  const std::string of_training = evaluation_line(whole);
  EXPECT_EQ(of_training.find("on data.train: top-1 "), 0u) << of_training;
  EXPECT_TRUE(of_training.ends_with(" of 61 samples")) << of_training;
}

// Each evaluation is also on a part of data.train, and goes by what it is of data.validation.
TEST_F(TrainerTest, EvaluationsMayBeOfTrainingDataAsWell) {
  const RunResult plain = train(recipe("plain"));
  const RunResult of_training = train(recipe("of-training", {"evaluation.from=training"}));
  const Recipe both = recipe("both", {"evaluation.training_fraction=1"});
  const RunResult result = train(both);
  EXPECT_TRUE(same_tensors(plain.checkpoint, result.checkpoint));
  for (const char* name : {"loss", "top1"}) {
    EXPECT_EQ(result.evaluation->at(name), plain.evaluation->at(name)) << name;
    EXPECT_EQ(result.evaluation->at(std::string("train_") + name), of_training.evaluation->at(name))
        << name;
  }
  all().barrier();
  if (!first()) return;
  EXPECT_EQ(rows(both, "run")[0]["metrics"].size(),
            2 * rows(recipe("plain"), "run")[0]["metrics"].size());
  for (const auto& row : rows(both, "evaluation")) {
    EXPECT_EQ(row["samples"], 40);
    EXPECT_TRUE(row["train_top1"].is_number()) << row;
  }
}

// As where all records are bad, and left out: no loss is 0 then, and no target reached.
TEST_F(TrainerTest, OfNoSamplesNothingIsKnown) {
  const testing_data::Stripes data(6);
  for (const char* name : {"classification", "one_vs_all"}) {
    const auto task = registry_.make_task(recipe("none", {std::string("task.name=") + name}));
    task->look(data, nullptr);
    for (const double figure : task->figures(std::vector<double>(task->sums())))
      EXPECT_TRUE(std::isnan(figure)) << name;
  }
}

// Of one of several updates, neither: the others of its row have theirs.
TEST_F(TrainerTest, UpdatesWhoseSamplesAreAllBadHaveNoLoss) {
  const auto recipe_of_rows = [this](const std::string& every) {
    return recipe("bad-" + every,
                  {"data.on_bad=skip", "data.train.size=4", "data.train.bad_every=2",
                   "training.batch=1", "output.every_steps=" + every});
  };
  const Recipe each = recipe_of_rows("1"), some = recipe_of_rows("4");
  for (const Recipe& r : {each, some}) EXPECT_EQ(train(r).steps, 12);
  all().barrier();
  if (!first()) return;
  const auto updates = rows(each, "step"), fours = rows(some, "step");
  ASSERT_EQ(updates.size(), 12u);
  ASSERT_EQ(fours.size(), 3u);
  int bad_at_the_end = 0;
  for (std::size_t four = 0; four < fours.size(); ++four) {
    double last = 0;
    for (std::size_t i = 4 * four; i < 4 * four + 4; ++i) {
      const bool bad = updates[i]["samples"] == 0;
      EXPECT_EQ(updates[i]["loss"].is_null(), bad) << updates[i];
      if (!bad) last = updates[i]["loss"];
      bad_at_the_end += bad && i % 4 == 3 ? 1 : 0;
    }
    EXPECT_GT(last, 0);
    EXPECT_EQ(fours[four]["loss"], last) << fours[four];
  }
  EXPECT_GT(bad_at_the_end, 0) << "nothing is tested with this order";
}

TEST_F(TrainerTest, ATimelineHasTheUpdatesThatWereRecorded) {
  const auto timeline_of = [this](const Recipe& r, int steps) {
    TrainerOptions options{.progress = false};
    options.timeline = folder_ + "/trace.json";
    test_world().communicator().barrier();  // nobody reads the one before any more
    std::filesystem::remove(options.timeline);
    Trainer trainer(test_world(), registry_, r, options);
    EXPECT_EQ(trainer.run().steps, steps);
    test_world().communicator().barrier();
    return test::read_timeline(read_text_file(options.timeline), test_world().size());
  };
  // Of 18 updates the last 10, with the evaluation at the end of the second epoch and of the third;
  // the checkpoints are behind those of epochs.
  for (const auto& rank : timeline_of(recipe("long", {"checkpoint.every_epochs=1"}), 18)) {
    const auto& training = rank.at("training");
    for (const char* phase : {"step", "update"})
      EXPECT_EQ(test::count_spans(training, phase), 10) << phase;
    // The last batch of an epoch may have no sample for a rank, which then passes.
    const int passed = test_world().size() == 1 ? 0 : 2;
    for (const char* phase : {"forward", "backward"}) {
      EXPECT_LE(test::count_spans(training, phase), 10) << phase;
      EXPECT_GE(test::count_spans(training, phase), 10 - passed) << phase;
    }
    EXPECT_GE(test::count_spans(training, "data"), 10);
    EXPECT_EQ(test::count_spans(training, "evaluation"), 2);
    EXPECT_EQ(test::count_spans(training, "checkpoint"), 2);
    ASSERT_EQ(rank.size(), 2u);  // and one bucket
    EXPECT_EQ(rank.begin()->second.size(), 10u) << rank.begin()->first;
  }
  for (const auto& rank :
       timeline_of(recipe("short", {"training.epochs=0", "training.steps=3"}), 3)) {
    EXPECT_EQ(test::count_spans(rank.at("training"), "step"), 3);
  }
}

TEST_F(TrainerTest, RanksWithDifferentRecipesAreNamed) {
  if (test_world().size() == 1) GTEST_SKIP() << "needs two ranks";
  const int rank = test_world().rank();
  try {
    train(recipe("same", {"training.batch=" + std::to_string(rank == 1 ? 8 : 12)}));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "rank 1: the recipe is another one than on rank 0: training.batch is 8, on rank 0 "
                 "it is 12");
  }
}

}  // namespace
}  // namespace convoy::train
