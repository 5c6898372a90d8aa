// Ranks that drive several devices, which are groups of threads here, against ranks of one each.
#include <ATen/Parallel.h>

#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>

#include "convoy/base/error.h"
#include "convoy/comm/threads.h"
#include "convoy/model/dropout.h"
#include "tests/train/trainer_fixture.h"
#include "train/strategies/devices/team.h"

namespace convoy::train {
namespace {

// With dropout of Convoy's own, whose masks are a sample's.
class DroppingNetwork final : public model::Network {
 public:
  DroppingNetwork() : Network("DroppingNetwork") {
    hidden_ = register_module("hidden", torch::nn::Linear(36, 16));
    dropout_ = register_module("dropout", model::Dropout(0.4));
    fc_ = register_module("fc", torch::nn::Linear(16, 3));
  }
  torch::Tensor forward(torch::Tensor images) override {
    return fc_(dropout_(torch::relu(hidden_(images.flatten(1)))));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return 3; }

 private:
  torch::nn::Linear hidden_{nullptr}, fc_{nullptr};
  model::Dropout dropout_{nullptr};
};

// Fails in training, if at all: in its forward pass, or in backward.
class FailingNetwork final : public model::Network {
 public:
  FailingNetwork(bool fails, bool in_backward)
      : Network("FailingNetwork"), fails_(fails), in_backward_(in_backward) {
    fc_ = register_module("fc", torch::nn::Linear(36, 3));
  }
  torch::Tensor forward(torch::Tensor images) override {
    const bool now = fails_ && is_training() && torch::GradMode::is_enabled();
    if (now && !in_backward_) throw std::runtime_error("of the network");
    torch::Tensor y = fc_(images.flatten(1));
    if (now) {
      y.register_hook([](const torch::Tensor&) -> torch::Tensor {
        throw std::runtime_error("of the network");
      });
    }
    return y;
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return 3; }

 private:
  bool fails_, in_backward_;
  torch::nn::Linear fc_{nullptr};
};

// Whose scores are no numbers in training.
class NumberlessNetwork final : public model::Network {
 public:
  NumberlessNetwork() : Network("NumberlessNetwork") {
    fc_ = register_module("fc", torch::nn::Linear(36, 3));
  }
  torch::Tensor forward(torch::Tensor images) override {
    const torch::Tensor y = fc_(images.flatten(1));
    const bool trains = is_training() && torch::GradMode::is_enabled();
    return trains ? y * std::numeric_limits<double>::quiet_NaN() : y;
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return 3; }

 private:
  torch::nn::Linear fc_{nullptr};
};

// Which keeps, in training and if at all, what is no number, where no loss shows it.
class ForgetfulNetwork final : public model::Network {
 public:
  explicit ForgetfulNetwork(bool forgets) : Network("ForgetfulNetwork"), forgets_(forgets) {
    fc_ = register_module("fc", torch::nn::Linear(36, 3));
    memory_ = register_buffer("memory", torch::zeros({2}));
  }
  torch::Tensor forward(torch::Tensor images) override {
    if (forgets_ && is_training() && torch::GradMode::is_enabled())
      memory_.fill_(std::numeric_limits<double>::quiet_NaN());
    return fc_(images.flatten(1));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return 3; }

 private:
  bool forgets_;
  torch::nn::Linear fc_{nullptr};
  torch::Tensor memory_;
};

class DevicesTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    // As "small", whose forward passes are counted by one thread at a time.
    for (const bool norm : {false, true}) {
      registry_.add_model(norm ? "norm" : "plain", [norm](const ModelRequest& request) {
        return std::make_shared<testing_data::Small>(request.classes, norm, 0);
      });
    }
    registry_.add_model("dropping",
                        [](const ModelRequest&) { return std::make_shared<DroppingNetwork>(); });
    registry_.add_model("numberless",
                        [](const ModelRequest&) { return std::make_shared<NumberlessNetwork>(); });
    registry_.add_model("frozen", [](const ModelRequest& request) {
      const auto network = std::make_shared<testing_data::Small>(request.classes, true, 0);
      network->parameters().front().set_requires_grad(false);
      return network;
    });
    // The replica of device 1.
    registry_.add_model("forgetful", [this](const ModelRequest&) {
      return std::make_shared<ForgetfulNetwork>(made_++ == 1);
    });
    for (const bool in_backward : {false, true}) {
      registry_.add_model(in_backward ? "fails_backward" : "fails_forward",
                          [this, in_backward](const ModelRequest&) {
                            return std::make_shared<FailingNetwork>(made_++ == 1, in_backward);
                          });
    }
  }

  // So many devices with a thread each.
  static Overrides with_devices(int devices, Overrides more) {
    more.push_back("sync.devices=" + std::to_string(devices));
    more.push_back("threads=" + std::to_string(devices));
    return more;
  }
  RunResult train_devices(const std::string& name, int devices, const Overrides& more,
                          const std::string& resume = "") {
    return train_in(test_world(), recipe(name, with_devices(devices, more)), resume);
  }
  // By the first rank, as a job of its own; the others wait.
  RunResult train_alone(const std::string& name, int devices, const Overrides& more) {
    RunResult result;
    std::exception_ptr error;
    if (first()) {
      const comm::World alone(std::move(comm::thread_transports(1).front()), comm::WorldOptions());
      try {
        result = train_in(alone, recipe(name, with_devices(devices, more)), "");
      } catch (...) {
        error = std::current_exception();
      }
    }
    all().barrier();
    if (error) std::rethrow_exception(error);
    return result;
  }
  RunResult train_in(const comm::World& world, const Recipe& r, const std::string& resume) {
    TrainerOptions options;
    options.resume = resume;
    options.progress = false;
    Trainer trainer(world, registry_, r, options);
    return trainer.run();
  }

  // Of weights, united statistics and what the optimizer has gathered.
  static void expect_same_bits(const std::string& a, const std::string& b) {
    const State x = state_of(a), y = state_of(b);
    const auto compare = [](const Tensors& one, const Tensors& other) {
      ASSERT_EQ(one.size(), other.size());
      for (const auto& [name, tensor] : one)
        EXPECT_TRUE(torch::equal(tensor, other.at(name))) << name;
    };
    compare(x.model, y.model);
    compare(x.optimizer, y.optimizer);
  }

  std::atomic<int> made_ = 0;
};

struct DeviceKind {
  const char* name;
  std::vector<std::string> overrides;
};

class DevicesAndProcesses : public DevicesTest, public testing::WithParamInterface<DeviceKind> {};

// Ranks with one device each, one rank with as many devices, and both together: the same local
// batches, the same number of threads for each.
TEST_P(DevicesAndProcesses, GiveTheSameBits) {
  // 24 samples are as many for each of two devices on 1, 2, 3 or 4 ranks.
  Overrides common{"precision=float32", "data.drop_last=true", "sync.reproducible=true",
                   "training.steps=7", "training.batch=24"};
  common.insert(common.end(), GetParam().overrides.begin(), GetParam().overrides.end());
  const int ranks = test_world().size();
  const std::string one_each = train_devices("one", 1, common).checkpoint;
  const std::string two_each = train_devices("two", 2, common).checkpoint;
  const std::string alone = train_alone("alone", ranks, common).checkpoint;
  const std::string alone_with_all = train_alone("all", 2 * ranks, common).checkpoint;
  Overrides baseline = common;
  baseline.push_back("sync.table=baseline");
  const std::string by_first = train_devices("baseline", 2, baseline).checkpoint;
  if (!first()) return;
  expect_same_bits(one_each, alone);
  expect_same_bits(two_each, alone_with_all);
  EXPECT_TRUE(same_tensors(two_each, by_first));  // with those of each device
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DevicesAndProcesses,
    testing::Values(DeviceKind{"Local", {"model.name=norm"}},
                    DeviceKind{"Synchronized", {"model.name=norm", "sync.batch_norm=synchronized"}},
                    DeviceKind{"Accumulated", {"model.name=norm", "training.accumulate=2"}},
                    DeviceKind{"Dropout", {"model.name=dropping"}},
                    DeviceKind{"Bfloat16", {"model.name=plain", "precision=bfloat16"}},
                    DeviceKind{"Adam",
                               {"model.name=plain", "optimizer.name=adam", "optimizer.lr=0.01",
                                "optimizer.momentum=0", "training.clip_norm=0.1"}}),
    [](const auto& info) { return std::string(info.param.name); });

// In float64 over 18 updates rounding alone stays under 1e-12; 1e-9 leaves room for another order.
// The last batch of an epoch has one sample, which leaves devices, and ranks, without any.
TEST_F(DevicesTest, ChangeNothingButRounding) {
  for (const std::string model : {"plain", "dropping"}) {
    const std::string one = train_devices(model, 1, {"model.name=" + model}).checkpoint;
    for (const int devices : {2, 3}) {
      for (const std::string table : {"optimized", "baseline"}) {
        const RunResult result = train_devices(model + std::to_string(devices) + table, devices,
                                               {"model.name=" + model, "sync.table=" + table});
        EXPECT_EQ(result.steps, 18);
        EXPECT_LT(largest_difference(one, result.checkpoint), 1e-9) << devices << " " << table;
      }
    }
  }
}

// Each device goes on with its own running statistics.
TEST_F(DevicesTest, GoOnToTheSameBits) {
  const auto for_epochs = [](int epochs) {
    return Overrides{"model.name=norm", "precision=float32", "data.drop_last=true",
                     "schedule.name=constant", "training.epochs=" + std::to_string(epochs)};
  };
  const std::string whole = train_devices("whole", 2, for_epochs(3)).checkpoint;
  train_devices("parts", 2, for_epochs(1));
  const RunResult rest = train_devices("parts", 2, for_epochs(3), "latest");
  EXPECT_EQ(rest.steps, 15);
  if (first()) EXPECT_TRUE(same_tensors(whole, rest.checkpoint));
  // With another number of devices all begin with the average.
  train_devices("other", 2, for_epochs(1));
  const RunResult other = train_devices("other", 3, for_epochs(2), "latest");
  EXPECT_EQ(other.steps, 10);
  EXPECT_TRUE(std::isfinite(other.loss));
}

// A checkpoint of one number of devices goes on with another, but for rounding.
TEST_F(DevicesTest, GoOnAsOneDeviceAndBack) {
  const auto for_epochs = [](int epochs) {
    return Overrides{"model.name=plain", "schedule.name=constant",
                     "training.epochs=" + std::to_string(epochs)};
  };
  const std::string whole = train_devices("one", 1, for_epochs(3)).checkpoint;
  for (const int first_ones : {1, 2}) {
    const std::string name = "from" + std::to_string(first_ones);
    train_devices(name, first_ones, for_epochs(1));
    const std::string rest =
        train_devices(name, 3 - first_ones, for_epochs(3), "latest").checkpoint;
    EXPECT_LT(largest_difference(whole, rest), 1e-9) << name;
  }
}

TEST_F(DevicesTest, MayHaveSeveralThreadsAndFrozenParameters) {
  const Overrides own{"model.name=frozen", "data.drop_last=true", "sync.batch_norm=synchronized"};
  const std::string one = train_devices("frozen", 1, own).checkpoint;
  Overrides more = own;
  more.push_back("sync.devices=2");
  more.push_back("threads=4");
  const std::string two = train_in(test_world(), recipe("frozen2", more), "").checkpoint;
  EXPECT_LT(largest_difference(one, two), 1e-9);
}

// What only another device than the first has keeps a run from being saved, too.
TEST_F(DevicesTest, AreAllLookedAtForNumbers) {
  const std::string said =
      test::message_of<Failure>([&] { train_alone("forgetful", 2, {"model.name=forgetful"}); });
  if (!first()) return;
  EXPECT_NE(said.find("'memory (device 1)' has values that are not finite"), std::string::npos)
      << said;
}

TEST_F(DevicesTest, CountWhatPassesTheFirst) {
  for (const std::string table : {"optimized", "baseline"}) {
    const Overrides own{"model.name=plain",  "precision=float32", "data.drop_last=true",
                        "training.epochs=0", "training.steps=2",  "sync.table=" + table,
                        "training.batch=24"};
    train_devices(table, 2, own);
    all().barrier();
    if (!first()) continue;
    const auto steps = rows(recipe(table, with_devices(2, own)), "step");
    ASSERT_EQ(steps.size(), 2u);
    const bool baseline = table == "baseline";
    // Of 36 pixels and 3 scores: all samples of the rank, and half of them to the second device;
    // their scores from there, and the gradients of these back.
    const double samples = 24.0 / test_world().size();
    const double bytes = 4 * (36 * samples + samples / 2 * (36 + 3 + 3));
    for (const auto& row : steps) {
      EXPECT_EQ(row["device_staged_bytes"].get<double>(), baseline ? bytes : 0.0);
      EXPECT_EQ(row["device_hand_overs"].get<double>(), baseline ? 6.0 : 1.0);
      EXPECT_GE(row["device_wait_s"].get<double>(), 0.0);
    }
  }
}

TEST_F(DevicesTest, MeasureNoise) {
  const Recipe r = recipe("noise", with_devices(2, {"model.name=plain", "training.accumulate=2",
                                                    "training.noise_every=2"}));
  train_in(test_world(), r, "");
  if (first()) EXPECT_EQ(rows(r, "noise").size(), 6u);  // not of the last batch of an epoch
}

// Where one device fails, the others end too, and it is named.
TEST_F(DevicesTest, ThatFailAreNamed) {
  for (const std::string model : {"fails_forward", "fails_backward"}) {
    for (const std::string table : {"optimized", "baseline"}) {
      made_ = 0;
      const std::string said = test::message_of<Failure>([&] {
        train_alone(model + table, 3, {"model.name=" + model, "sync.table=" + table});
      });
      if (!first()) continue;
      EXPECT_EQ(said.find("device 1 of rank 0: "), 0u) << model << " " << table << ": " << said;
      EXPECT_NE(said.find("of the network"), std::string::npos) << said;
    }
  }
}

// Of a batch that is not run once more.
TEST_F(DevicesTest, EndWhereALossIsNoNumber) {
  for (const std::string table : {"optimized", "baseline"}) {
    const std::string said = test::message_of<Failure>([&] {
      train_devices("numberless-" + table, 2, {"model.name=numberless", "sync.table=" + table});
    });
    for (const char* part : {"the loss of step 1 is nan, by the gradient of 'fc.",
                             "; with several devices of a rank (sync.devices) no batch is run"})
      EXPECT_NE(said.find(part), std::string::npos) << table << ": " << said;
  }
}

TEST_F(DevicesTest, AreRefusedWhereTheyCanNotBe) {
  const auto refused = [&](const Overrides& overrides) {
    return refusal(recipe("refused", overrides));
  };
  if (test_world().size() > 1) {
    EXPECT_NE(refused({"sync.devices=12"}).find("ranks of 12 devices (sync.devices) are more"),
              std::string::npos);
  }
  EXPECT_NE(refused({"sync.devices=2", "model.options.dropout=0.5"})
                .find("the model 'small' draws random numbers from LibTorch's generator"),
            std::string::npos);
  // The last batch of an epoch has one sample.
  EXPECT_NE(refused({"sync.devices=2", "sync.batch_norm=synchronized", "model.options.norm=true"})
                .find("so every device needs a sample in every micro-batch"),
            std::string::npos);
}

TEST_F(DevicesTest, TeamsHaveThreadsOfTheirOwn) {
  const int before = at::get_num_threads();
  Team team(3, 2, 7);
  std::array<int, 3> threads{};
  bool here = false;
  team.run(
      [&](std::size_t device) {
        // What is inlined here asks for the number by itself.
        at::parallel_for(0, 2, 1, [](std::int64_t, std::int64_t) {});
        threads[device] = at::get_num_threads();
      },
      [&] { here = true; });
  EXPECT_EQ(threads, (std::array<int, 3>{2, 2, 2}));
  EXPECT_TRUE(here);
  EXPECT_EQ(at::get_num_threads(), before);
  std::vector<std::string> told;
  team.set_on_failure([&](const std::string& why) { told.push_back(why); });
  const auto fails = [](std::size_t device) {
    if (device == 2) throw UsageError("there is no more");
  };
  EXPECT_EQ(test::message_of<UsageError>([&] { team.run(fails); }),
            "device 2 of rank 7: there is no more");
  EXPECT_EQ(told, std::vector<std::string>{"device 2 of rank 7: there is no more"});
  // What is the same for all is no device's own.
  team.set_on_failure({});
  EXPECT_EQ(test::message_of<Failure>(
                [&] { team.run([](std::size_t) { throw Failure("rank 1 has died"); }); }),
            "rank 1 has died");
  // Each device's memory is its own.
  EXPECT_EQ(test::message_of<Failure>([&] {
              team.run([](std::size_t) { throw std::bad_alloc(); });
            }).find("device 0 of rank 7 is out of memory"),
            0u);
  const std::string no_memory = test::message_of<Failure>([&] {
    team.run([](std::size_t device) {
      if (device == 1)
        throw std::runtime_error("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes");
    });
  });
  EXPECT_EQ(no_memory.find("device 1 of rank 7 is out of memory"), 0u) << no_memory;
  team.run_on_first([&] { threads[0] = 11; });
  EXPECT_EQ(threads[0], 11);
  EXPECT_EQ(team.take_counts().hand_overs, 6u);
  EXPECT_EQ(team.take_counts().hand_overs, 0u);
}

}  // namespace
}  // namespace convoy::train
