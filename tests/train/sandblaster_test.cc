// Sandblaster jobs from beginning to end: what replicas compute, and what comes of it.
#include "convoy/train/sandblaster.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/train/sandblaster_roles.h"
#include "convoy/train/trained.h"
#include "tests/base/scratch.h"
#include "tests/train/sandblaster_fake.h"
#include "tests/train/small_world.h"

namespace convoy::train {
namespace {

using testing_data::FakeBatchJob;

// 60 samples in 8 portions, of 8 and one of 4, computed 5 samples at a time.
constexpr const char* kSandblasterRecipe = R"(
name = "job"
strategy = "sandblaster"
threads = 1
precision = "float64"
[model]
name = "mlp"  # whose first weights need no generator, which threads would share
[model.options]
hidden = [16]
[data]
reader = "stripes"
[data.train]
size = 60
[data.validation]
size = 30
[training]
batch = 5
steps = 6
[output]
tensorboard = false
rank_times_every_steps = 0
[sandblaster]
portion = 8
replicas = 2
)";

// Softmax, with something that is no part of a function of its parameters.
class Odd final : public model::Network {
 public:
  Odd(std::int64_t classes, bool counts) : classes_(classes), counts_(counts) {
    fc_ = register_module("fc", torch::nn::Linear(36, classes));
    if (counts)
      passes_ = register_buffer("passes", torch::zeros({1}));
    else
      spare_ = register_module("spare", torch::nn::Linear(5, 7));
  }
  torch::Tensor forward(torch::Tensor x) override {
    if (counts_ && is_training()) passes_ += 1;
    return fc_(x.flatten(1));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  bool counts_;
  torch::nn::Linear fc_{nullptr}, spare_{nullptr};
  torch::Tensor passes_;
};

// Softmax of what dropout leaves. Its first weights need no generator either.
class Thinned final : public model::Network {
 public:
  explicit Thinned(std::int64_t classes) : classes_(classes) {
    fc_ = register_module("fc", torch::nn::Linear(36, classes));
    const torch::NoGradGuard no_grad;
    fc_->weight.copy_(torch::linspace(-0.1, 0.1, fc_->weight.numel()).view({classes, 36}));
    fc_->bias.zero_();
  }
  torch::Tensor forward(torch::Tensor x) override {
    return fc_(torch::dropout(x.flatten(1), 0.5, is_training()));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  torch::nn::Linear fc_{nullptr};
};

// Softmax that has no loss where a weight is larger than it may be.
class Fenced final : public model::Network {
 public:
  Fenced(std::int64_t classes, double largest, std::shared_ptr<std::atomic<int>> beyond)
      : classes_(classes), largest_(largest), beyond_(std::move(beyond)) {
    fc_ = register_module("fc", torch::nn::Linear(36, classes));
    const torch::NoGradGuard no_grad;
    fc_->weight.copy_(torch::linspace(-0.1, 0.1, fc_->weight.numel()).view({classes, 36}));
    fc_->bias.zero_();
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = fc_(x.flatten(1));
    if (fc_->weight.abs().max().item<double>() <= largest_) return x;
    ++*beyond_;
    return x * std::numeric_limits<double>::quiet_NaN();
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  double largest_;
  std::shared_ptr<std::atomic<int>> beyond_;
  torch::nn::Linear fc_{nullptr};
};

class SandblasterTest : public testing::Test {
 protected:
  using Overrides = std::vector<std::string>;

  void SetUp() override { testing_data::add_small_world(registry_); }

  Recipe recipe(Overrides more = {}) {
    more.insert(more.begin(), "output.folder=\"" + scratch_.path() + "/run\"");
    return parse_recipe({kSandblasterRecipe, "job", "/"}, more, registry_.vocabulary());
  }

  // What a thread throws is kept, and ends the job.
  template <typename T>
  void on_thread(FakeBatchJob<T>& job, const std::function<void(comm::World&)>& body,
                 int ranks = 1) {
    threads_.emplace_back([this, &job, body, ranks] {
      try {
        comm::World::run_threads(ranks, body);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex_);
          if (error_.empty()) error_ = error.what();
        }
        job.end("a process failed");
      }
    });
  }

  struct Outcome {
    RunResult result;
    std::vector<BatchReplicaResult> replicas;
    std::string error;  // of a process
  };
  // A whole job.
  template <typename T>
  Outcome run(FakeBatchJob<T>& job, const Recipe& recipe, std::function<bool()> stop = {},
              const std::string& resume = "") {
    Outcome outcome;
    TrainerOptions options;
    options.progress = false;
    options.overwrite = resume.empty();
    options.resume = resume;
    options.should_stop = std::move(stop);
    const int partitions = static_cast<int>(recipe.grid.partitions);
    on_thread<T>(
        job,
        [&, options](comm::World& world) {
          const RunResult own =
              run_batch_evaluator(world, registry_, recipe, testing_data::connect_to(job), options);
          if (world.rank() > 0) return;
          outcome.result = own;
          job.end("its evaluator was told to stop");  // as who starts the processes
        },
        partitions);
    outcome.replicas.resize(static_cast<std::size_t>(sandblaster_of(recipe).replicas));
    for (BatchReplicaResult& replica : outcome.replicas) {
      on_thread<T>(
          job,
          [&](comm::World& world) {
            const BatchReplicaResult own =
                run_batch_replica(world, registry_, recipe, testing_data::connect_to(job), {});
            if (world.rank() == 0) replica = own;
          },
          partitions);
    }
    job.optimize();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    outcome.error = std::exchange(error_, "");
    return outcome;
  }

  static State saved(const std::string& checkpoint) {
    return read_checkpoint(checkpoint, open_checkpoint(checkpoint), 0, 1);
  }
  static void expect_same(const Tensors& a, const Tensors& b, double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, tensor] : a) {
      ASSERT_TRUE(b.contains(name)) << name;
      const auto difference = (tensor.to(torch::kDouble) - b.at(name).to(torch::kDouble)).abs();
      EXPECT_LE(difference.max().item<double>(), tolerance) << name;
    }
  }

  Registry registry_;
  test::Scratch scratch_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::string error_;
};

TEST_F(SandblasterTest, AnyReplicasAndGroupsComeToTheSameBits) {
  std::vector<double> weights;
  std::string checkpoint;
  for (const auto& [replicas, level] : {std::pair{1, 0}, {2, 1}, {4, 2}, {3, 0}, {1, 3}}) {
    SCOPED_TRACE(std::to_string(replicas) + " replicas, level " + std::to_string(level));
    const Recipe r = recipe({"sandblaster.replicas=" + std::to_string(replicas)});
    FakeBatchJob<double> job(r, static_cast<std::uint8_t>(level));
    const Outcome outcome = run(job, r);
    ASSERT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.result.steps, 6);
    EXPECT_FALSE(outcome.result.stopped);
    EXPECT_EQ(job.ended(), "all iterations are done");
    std::uint64_t portions = 0;
    for (const BatchReplicaResult& replica : outcome.replicas) portions += replica.portions;
    EXPECT_EQ(portions, 8u * static_cast<unsigned>(job.evaluations()));
    const std::vector<double>& mine = job.weights(job.state().weights);
    if (weights.empty()) weights = mine;
    EXPECT_EQ(mine, weights);
    EXPECT_LT(job.state().loss, 0.8);  // it began near log 3
    // The last checkpoint has them.
    const State state = saved(outcome.result.checkpoint);
    std::size_t at = 0;
    for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}) {
      const torch::Tensor tensor = state.model.at(name).contiguous();
      ASSERT_EQ(tensor.scalar_type(), torch::kDouble);
      for (std::int64_t i = 0; i < tensor.numel(); ++i)
        ASSERT_EQ(tensor.const_data_ptr<double>()[i], mine[at++]) << name;
    }
    EXPECT_EQ(at, mine.size());
  }
}

// The loss and its gradient at the first weights, by a network of its own and all samples at once.
TEST_F(SandblasterTest, TheObjectiveIsTheMeanLossOfAllSamples) {
  const Recipe r = recipe({"training.steps=1", "sandblaster.method=gradient_descent"});
  FakeBatchJob<double> job(r, 1);
  double loss = 0;
  std::vector<double> first;
  job.before_fetch = [&](std::uint64_t, const optim::VectorName& name) {
    if (name == optim::VectorName{}) first = job.weights(name);
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  // Its first iteration goes along the gradient: the step's direction is known.
  const std::vector<double>& last = job.weights(job.state().weights);
  std::vector<torch::Tensor> parameters;
  std::size_t at = 0;
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{16, 36}, {16}, {3, 16}, {3}}) {
    torch::Tensor parameter = torch::empty(shape, torch::kDouble);
    std::copy_n(first.begin() + static_cast<std::ptrdiff_t>(at), parameter.numel(),
                parameter.data_ptr<double>());
    at += static_cast<std::size_t>(parameter.numel());
    parameters.push_back(parameter.requires_grad_());
  }
  ASSERT_EQ(at, first.size());
  const testing_data::Stripes stripes(60);
  torch::Tensor images = torch::empty({60, 36}, torch::kFloat),
                labels = torch::empty({60}, torch::kLong);
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < 60; ++i) {
    const data::Record record = stripes.read(i, buffer);
    std::memcpy(images.data_ptr<float>() + i * 36, record.bytes.data(), record.bytes.size());
    labels.data_ptr<std::int64_t>()[i] = record.label;
  }
  const auto forward = [&] {
    const torch::Tensor hidden = torch::relu(
        torch::nn::functional::linear(images.to(torch::kDouble), parameters[0], parameters[1]));
    return torch::nn::functional::cross_entropy(
        torch::nn::functional::linear(hidden, parameters[2], parameters[3]), labels);
  };
  const torch::Tensor mean = forward();
  mean.backward();
  loss = mean.item<double>();
  double dot = 0, square = 0, moved = 0;
  at = 0;
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor gradient = parameter.grad().contiguous();
    for (std::int64_t i = 0; i < gradient.numel(); ++i, ++at) {
      const double g = gradient.const_data_ptr<double>()[i], step = last[at] - first[at];
      dot -= g * step;
      square += g * g;
      moved += step * step;
    }
  }
  ASSERT_GT(moved, 0);
  EXPECT_NEAR(dot / std::sqrt(square * moved), 1, 1e-12);
  // And the loss is that of the weights that it came to.
  {
    const torch::NoGradGuard no_grad;
    at = 0;
    for (torch::Tensor& parameter : parameters) {
      std::copy_n(last.begin() + static_cast<std::ptrdiff_t>(at), parameter.numel(),
                  parameter.data_ptr<double>());
      at += static_cast<std::size_t>(parameter.numel());
    }
    EXPECT_NEAR(forward().item<double>(), job.state().loss, 1e-13);
    EXPECT_LT(job.state().loss, loss);
  }
}

// Whatever is drawn by chance, each evaluation is of the same function.
TEST_F(SandblasterTest, AugmentationAndDropoutAreTheSameInEachEvaluation) {
  registry_.add_model("thinned",
                      [](const ModelRequest& r) { return std::make_shared<Thinned>(r.classes); });
  std::vector<double> before;
  for (const std::uint8_t level : {0, 2}) {
    const Recipe r =
        recipe({"model={name=\"thinned\"}", "data.augment.crop=random_padded",
                "data.augment.padding=2", "data.augment.flip=true", "sandblaster.replicas=1"});
    FakeBatchJob<double> job(r, level);
    const Outcome outcome = run(job, r);
    ASSERT_EQ(outcome.error, "");
    // A function that changed between evaluations would have no minimum to come near to.
    EXPECT_LT(job.state().loss, 1.0);
    const std::vector<double>& mine = job.weights(job.state().weights);
    if (before.empty()) before = mine;
    EXPECT_EQ(mine, before);
  }
}

TEST_F(SandblasterTest, InSinglePrecisionVectorsAreFloats) {
  const Recipe r = recipe({"precision=float32", "training.steps=10"});
  FakeBatchJob<float> job(r, 1);
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_LT(job.state().loss, 0.6);
  EXPECT_EQ(saved(outcome.result.checkpoint).model.at("fc1.weight").scalar_type(), torch::kFloat);
}

// A replica of two ranks, each with its part of the network.
TEST_F(SandblasterTest, AReplicaMayBeDivided) {
  const Recipe whole = recipe();
  FakeBatchJob<double> one(whole, 1);
  Outcome outcome = run(one, whole);
  ASSERT_EQ(outcome.error, "");
  const State a = saved(outcome.result.checkpoint);
  const Recipe divided = recipe({"grid.partitions=2"});
  FakeBatchJob<double> two(divided, 1);
  outcome = run(two, divided);
  ASSERT_EQ(outcome.error, "");
  EXPECT_NEAR(two.state().loss, one.state().loss, 1e-9 * one.state().loss);
  expect_same(saved(outcome.result.checkpoint).model, a.model, 1e-7);
}

TEST_F(SandblasterTest, WhoIsGivenUpTakesPartAgain) {
  const Recipe r = recipe();
  FakeBatchJob<double> plain(r, 0);
  Outcome outcome = run(plain, r);
  ASSERT_EQ(outcome.error, "");
  const std::vector<double> expected = plain.weights(plain.state().weights);
  FakeBatchJob<double> job(r, 0);
  std::atomic<int> groups{0};
  std::atomic<bool> dropped{false};
  job.before_add = [&](std::uint64_t client, const server::PortionGroup&) {
    if (++groups > 10 && !dropped.exchange(true)) job.drop(client);
  };
  outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_TRUE(dropped);
  EXPECT_EQ(outcome.replicas[0].joined + outcome.replicas[1].joined, 3u);
  EXPECT_EQ(job.weights(job.state().weights), expected);
}

// Who comes back late finds that others have done its groups, and that the weights of their
// evaluation are gone.
TEST_F(SandblasterTest, WeightsThatAreGoneAreNoMistake) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 0);
  std::atomic<int> fetches{0};
  job.before_fetch = [&](std::uint64_t client, const optim::VectorName& name) {
    if (name.iteration != 1 || fetches++ > 0) return;
    job.hand_out_again(client);
    ASSERT_TRUE(job.wait_past({name.iteration, name.evaluation}));
    throw UsageError("there is no such vector");
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_GE(fetches, 2);
  EXPECT_EQ(outcome.result.steps, 6);
}

// Those of an evaluation that goes on are missed.
TEST_F(SandblasterTest, WeightsThatAreMissingAreSaid) {
  const Recipe r = recipe({"sandblaster.replicas=1"});
  FakeBatchJob<double> job(r, 0);
  job.before_fetch = [&](std::uint64_t, const optim::VectorName& name) {
    if (name.iteration == 1) throw UsageError("there is no such vector");
  };
  EXPECT_EQ(run(job, r).error, "there is no such vector");
}

TEST_F(SandblasterTest, EndsWhereTheMethodDoes) {
  const Recipe r = recipe({"training.steps=500", "sandblaster.gradient_norm=0.05"});
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_LT(outcome.result.steps, 500);
  EXPECT_EQ(outcome.result.steps, job.state().iteration);
  EXPECT_FALSE(outcome.result.stopped);
  EXPECT_TRUE(outcome.result.evaluation);
  EXPECT_EQ(outcome.result.evaluated_at, outcome.result.steps);
  EXPECT_EQ(job.ended(), "the gradient is small enough");
}

TEST_F(SandblasterTest, ToldToStopItSavesWhatThereIs) {
  const Recipe r = recipe({"training.steps=100000", "sandblaster.gradient_norm=0"});
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r, [&job] { return job.evaluations() > 3; });
  ASSERT_EQ(outcome.error, "");
  EXPECT_TRUE(outcome.result.stopped);
  EXPECT_NE(outcome.result.checkpoint, "");
}

// All that the method goes on from is in a checkpoint, and it doesn't matter who goes on.
TEST_F(SandblasterTest, GoesOnFromACheckpointWithTheSameBits) {
  for (const std::string method : {"lbfgs", "conjugate_gradient"}) {
    SCOPED_TRACE(method);
    const auto steps = [&](int count, int replicas) {
      return recipe({"training.steps=" + std::to_string(count),
                     "sandblaster.replicas=" + std::to_string(replicas),
                     "sandblaster.method=" + method, "sandblaster.curvature=0.1"});
    };
    FakeBatchJob<double> whole(steps(7, 1), 1);
    ASSERT_EQ(run(whole, steps(7, 1)).error, "");
    FakeBatchJob<double> first(steps(4, 2), 0);
    Outcome outcome = run(first, steps(4, 2));
    ASSERT_EQ(outcome.error, "");
    const State state = saved(outcome.result.checkpoint);
    EXPECT_EQ(state.lists.at("batch").front(), "iteration 4");
    EXPECT_TRUE(state.optimizer.contains("gradient/fc1.weight"));
    EXPECT_EQ(state.optimizer.contains("step.4/fc1.weight"), method == "lbfgs");
    EXPECT_EQ(state.optimizer.contains("direction/fc1.weight"), method != "lbfgs");
    FakeBatchJob<double> second(steps(7, 3), 2);
    outcome = run(second, steps(7, 3), {}, outcome.result.checkpoint);
    ASSERT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.result.steps, 7);
    EXPECT_EQ(second.state(), whole.state());
    EXPECT_EQ(second.weights(second.state().weights), whole.weights(whole.state().weights));
    EXPECT_EQ(second.evaluations() + first.evaluations(), whole.evaluations());
  }
}

// A coordinator that was started again holds no vectors for anybody: those of the next state are
// there, before anything of this one is evaluated or written.
TEST_F(SandblasterTest, ACheckpointWhoseVectorsAreGoneIsOfTheNextState) {
  const Recipe r = recipe({"checkpoint.every_steps=2"});
  FakeBatchJob<double> job(r, 0);
  std::atomic<int> refused{0};
  job.before_fetch = [&](std::uint64_t client, const optim::VectorName& name) {
    const bool evaluators = client == 0 && name.role == optim::VectorRole::gradient;
    if (evaluators && refused++ == 0) throw UsageError("there is no such vector");
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_GE(refused, 2);
  EXPECT_EQ(outcome.result.steps, 6);
  EXPECT_TRUE(saved(outcome.result.checkpoint).optimizer.contains("gradient/fc1.weight"));
}

// Another strategy takes the weights, and its optimizer begins anew.
TEST_F(SandblasterTest, OtherStrategiesGoOnFromItsWeights) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  const double before = job.state().loss;
  const Recipe sync =
      recipe({"strategy=sync", "training.steps=30", "optimizer.lr=0.01", "optimizer.name=adam",
              "output.folder=\"" + scratch_.path() + "/sync\""});
  comm::World::run_threads(1, [&](comm::World& world) {
    TrainerOptions options;
    options.progress = false;
    options.resume = outcome.result.checkpoint;
    const RunResult result = Trainer(world, registry_, sync, options).run();
    EXPECT_EQ(result.steps, 30);
    EXPECT_LT(result.loss, before + 0.1);
    Trained trained(world, registry_,
                    find_trained(registry_, outcome.result.checkpoint, Which::newest, {}));
    const auto score = trained.evaluate(std::make_shared<testing_data::Stripes>(30));
    ASSERT_FALSE(score.figures.empty());
    for (std::size_t i = 0; i < score.figures.size(); ++i)
      EXPECT_EQ(score.figures[i].value, outcome.result.evaluation->figures[i].value);
  });
}

TEST_F(SandblasterTest, SaysWhatAnotherMethodLacks) {
  const Recipe r = recipe({"training.steps=2"});
  FakeBatchJob<double> job(r, 1);
  Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  const Recipe other = recipe({"sandblaster.method=conjugate_gradient"});
  FakeBatchJob<double> second(other, 1);
  outcome = run(second, other, {}, outcome.result.checkpoint);
  EXPECT_NE(outcome.error.find("the checkpoint has no vector 'direction 2"), std::string::npos)
      << outcome.error;
  EXPECT_NE(outcome.error.find("sandblaster.method"), std::string::npos) << outcome.error;
}

// What is saved of the method are loss, gradient and history of one function.
TEST_F(SandblasterTest, AnotherFunctionIsRefused) {
  const Recipe r = recipe({"training.steps=2"});
  FakeBatchJob<double> job(r, 1);
  const Outcome first = run(job, r);
  ASSERT_EQ(first.error, "");
  const auto error_with = [&](const std::string& change) {
    const Recipe other = recipe({change});
    FakeBatchJob<double> second(other, 1);
    return run(second, other, {}, first.result.checkpoint).error;
  };
  for (const char* change : {"sandblaster.l2=0.5", "data.mean=[0.25]", "data.deviation=[2]",
                             "data.augment.flip=true", "task.options.label_smoothing=0.1"}) {
    const std::string error = error_with(change);
    const std::string key = std::string(change).substr(0, std::string(change).find('='));
    EXPECT_NE(error.find("can't be resumed with this recipe: " + key + " is "), std::string::npos)
        << error;
    EXPECT_NE(error.find("begin with its weights (model.weights"), std::string::npos) << error;
  }
  // Portions are only another order of the same sums.
  EXPECT_EQ(error_with("sandblaster.portion=12"), "");
}

TEST_F(SandblasterTest, MetricsSayWhoHadWhichPortions) {
  const Recipe r = recipe({"training.steps=3", "output.every_steps=100"});
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  std::ifstream file(scratch_.path() + "/run/metrics.jsonl");
  double portions = 0, told = 0;
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row.at("kind") == "iteration") {
      told += row.at("portions").get<double>();
      EXPECT_EQ(row.at("method_bytes"), 3000);
      EXPECT_EQ(row.at("portion_bytes"), 4000);
    }
    if (row.at("kind") == "step") {
      EXPECT_EQ(row.at("pushed_bytes"), 1000);
      EXPECT_EQ(row.at("fetched_bytes"), 2000);
    }
    if (row.at("kind") != "groups") continue;
    for (const double each : row.at("portions")) portions += each;
    EXPECT_EQ(row.at("began_s").size(), row.at("portions").size());
    for (const std::string name : row.at("replica_names")) names.insert(name);
  }
  EXPECT_EQ(portions, 8.0 * job.evaluations());
  EXPECT_GT(told, 0);
  EXPECT_TRUE(names.contains("replica-1"));
}

TEST_F(SandblasterTest, NetworksThatAreNoOneFunctionAreRefused) {
  const Recipe r =
      recipe({"model={name=\"small\", options={norm=true}}", "sandblaster.replicas=1"});
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r);
  EXPECT_NE(outcome.error.find("the network has batch normalization ('bn.running_mean')"),
            std::string::npos)
      << outcome.error;
}

// One whose training passes change a buffer that no optimizer knows.
TEST_F(SandblasterTest, ABufferThatChangesIsRefused) {
  registry_.add_model("counting",
                      [](const ModelRequest& r) { return std::make_shared<Odd>(r.classes, true); });
  const Recipe r = recipe({"model={name=\"counting\"}", "sandblaster.replicas=1"});
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r);
  EXPECT_NE(outcome.error.find("a pass in training changes 'passes' of the network"),
            std::string::npos)
      << outcome.error;
}

TEST_F(SandblasterTest, ParametersThatNothingUsesStayAsTheyAre) {
  registry_.add_model(
      "spare", [](const ModelRequest& r) { return std::make_shared<Odd>(r.classes, false); });
  const Recipe r = recipe({"model={name=\"spare\"}", "sandblaster.replicas=1"});
  FakeBatchJob<double> job(r, 1);
  std::vector<double> first;
  job.before_fetch = [&](std::uint64_t, const optim::VectorName& name) {
    if (name == optim::VectorName{}) first = job.weights(name);
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  const std::vector<double>& last = job.weights(job.state().weights);
  std::size_t changed = 0, alike = 0;
  for (std::size_t i = 0; i < last.size(); ++i) ++(last[i] == first[i] ? alike : changed);
  EXPECT_EQ(alike, 5u * 7 + 7);
  EXPECT_EQ(changed, 36u * 3 + 3);
}

// Fewer portions than replicas, and groups that could be larger.
TEST_F(SandblasterTest, OnePortionIsEnough) {
  const Recipe r = recipe({"sandblaster.portion=100", "sandblaster.replicas=3"});
  FakeBatchJob<double> job(r, 0);
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.result.steps, 6);
  EXPECT_LT(job.state().loss, 0.8);
}

TEST_F(SandblasterTest, AFirstLossThatIsNotFiniteIsSaid) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 1);
  job.loss_of = [](const server::EvaluationId&, double) { return INFINITY; };
  const Outcome outcome = run(job, r);
  EXPECT_NE(outcome.error.find("the first loss or gradient is not finite"), std::string::npos)
      << outcome.error;
  EXPECT_NE(outcome.error.find("Look at the data"), std::string::npos) << outcome.error;
}

// A step to where the loss is none is too long.
TEST_F(SandblasterTest, ALaterLossThatIsNotFiniteShortensTheStep) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 1);
  job.loss_of = [](const server::EvaluationId& id, double loss) {
    return id == server::EvaluationId{1, 0} || id == server::EvaluationId{1, 1} ? INFINITY : loss;
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.result.steps, 6);
  EXPECT_LT(job.state().loss, 1.2);
}

// Replicas send no gradient then, and nobody waits for one.
TEST_F(SandblasterTest, WhereTheNetworkHasNoLossTheStepIsShorter) {
  const auto beyond = std::make_shared<std::atomic<int>>(0);
  static constexpr double kLargest = 0.105;
  registry_.add_model("fenced", [beyond](const ModelRequest& r) {
    return std::make_shared<Fenced>(r.classes, kLargest, beyond);
  });
  std::vector<double> expected;
  for (const int replicas : {1, 3}) {
    const Recipe r =
        recipe({"model={name=\"fenced\"}", "sandblaster.replicas=" + std::to_string(replicas)});
    FakeBatchJob<double> job(r, replicas == 1 ? 0 : 1);
    *beyond = 0;
    const Outcome outcome = run(job, r);
    ASSERT_EQ(outcome.error, "");
    EXPECT_GT(*beyond, 0);
    EXPECT_GT(outcome.result.steps, 0);
    const std::vector<double>& last = job.weights(job.state().weights);
    for (std::size_t i = 0; i < 36u * 3; ++i) EXPECT_LE(std::abs(last[i]), kLargest);
    if (replicas == 1) expected = last;
    EXPECT_EQ(last, expected);
  }
}

}  // namespace
}  // namespace convoy::train
