// Downpour's loop against a serial account of it.
#include "train/strategies/downpour/exchange.h"

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "convoy/comm/world.h"
#include "tests/train/downpour_fake.h"

namespace convoy::train {
namespace {

using testing_data::FakeJob;
using testing_data::FakeService;
using Outcome = Exchange::Outcome;

constexpr double kServerRate = 0.5, kLocalRate = 0.125;  // exact in float32, and so are gradients

struct TwoTensors : torch::nn::Module {
  TwoTensors() {
    w = register_parameter("w", torch::tensor({1.0F, 2.0F, 3.0F}));
    mean = register_buffer("running_mean", torch::tensor({4.0F, 8.0F}));
    count = register_buffer("num_batches_tracked", torch::tensor(std::int64_t{0}));
  }
  torch::Tensor w, mean, count;
};

server::JobPlan plan(std::uint64_t bound = server::kUnbounded) {
  server::JobPlan plan;
  plan.shards = 2;
  plan.staleness_bound = bound;
  plan.epochs = 1;
  return plan;
}

// A replica without a network: gradients are given.
struct Small {
  Small(const comm::World& world, FakeJob& job, const DownpourRecipe& recipe)
      : service(job),
        vectors(world.communicator(), optimizer(), {{"w", module.w}}, module, {}),
        exchange(world.communicator(), vectors, recipe) {
    server::JobDescription description;
    description.vectors = vectors.specs();
    description.epoch_samples = 1000;
    if (!service.describe(description)) {
      torch::Tensor block = vectors.new_block();
      for (const OwnVector& own : vectors.own()) vectors.view(block, own).copy_(own.tensor);
      service.initialize(vectors.to_read(block), {}, 0);
    }
    service.join(description, {});
    exchange.set_learning_rate(kLocalRate);
  }
  static OptimizerRecipe optimizer() {
    OptimizerRecipe recipe;
    recipe.lr = kServerRate;
    return recipe;
  }
  void gradient(float g) {
    module.w.mutable_grad() = torch::full({3}, g);
    exchange.gather();
  }
  float moved() const {
    const torch::Tensor by = module.w.detach() - torch::tensor({1.0F, 2.0F, 3.0F});
    EXPECT_EQ(by[0].item<float>(), by[1].item<float>());
    EXPECT_EQ(by[0].item<float>(), by[2].item<float>());
    return by[0].item<float>();
  }
  void settle() {
    while (!exchange.settled()) std::this_thread::yield();
  }

  TwoTensors module;
  FakeService service;
  Vectors vectors;
  Exchange exchange;
};

DownpourRecipe downpour(std::int64_t n_fetch, std::int64_t n_push, const char* local_steps) {
  DownpourRecipe recipe;
  recipe.n_fetch = n_fetch;
  recipe.n_push = n_push;
  recipe.local_steps = local_steps;
  return recipe;
}

// Each fetch that is begun together with a push is served before it, and each of both is over
// before the next mini-batch ends.
class Ordered {
 public:
  explicit Ordered(FakeJob& job) {
    job.after_fetch = [this](std::uint64_t) {
      const std::lock_guard lock(mutex_);
      ++fetched_;
      changed_.notify_all();
    };
    job.before_push = [this](std::uint64_t, std::uint64_t) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return fetched_ >= awaited_; });
    };
  }
  void await(int fetches) {
    const std::lock_guard lock(mutex_);
    awaited_ = fetches;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int fetched_ = 0, awaited_ = 0;
};

void expect_serial(std::int64_t n_fetch, std::int64_t n_push, const char* local_steps) {
  SCOPED_TRACE(std::to_string(n_fetch) + " " + std::to_string(n_push) + " " + local_steps);
  comm::World::run_threads(1, [&](comm::World& world) {
    FakeJob job(plan());
    Ordered ordered(job);
    Small replica(world, job, downpour(n_fetch, n_push, local_steps));
    ASSERT_EQ(replica.exchange.connect(replica.service), Outcome::go_on);
    int fetches = 1;
    std::vector<float> gradients;
    std::size_t pushed = 0;         // of them, begun
    std::size_t pushed_before = 0;  // and acknowledged when the fetch under way began
    double served = 0, fetched = 0, moved = 0;
    bool fetching = false;
    for (int step = 1; step <= 12; ++step) {
      const auto g = static_cast<float>(step % 5 - 2);
      gradients.push_back(g);
      moved -= kLocalRate * g;
      // What is taken over after this mini-batch.
      if (fetching) {
        moved = fetched;
        if (std::string(local_steps) == "again") {
          for (std::size_t i = pushed_before; i < gradients.size(); ++i)
            moved -= kLocalRate * gradients[i];
        }
        fetching = false;
      }
      double now = served;
      const std::size_t acknowledged = pushed;  // what was begun before is over by now
      if (step % n_push == 0) {
        double sum = 0;
        for (; pushed < gradients.size(); ++pushed) sum += gradients[pushed];
        now -= kServerRate * sum;
      }
      if (step % n_fetch == 0) {
        fetching = true;
        fetched = served;
        pushed_before = acknowledged;
        ++fetches;
      }
      served = now;
      ordered.await(fetches);
      replica.gradient(g);
      ASSERT_EQ(
          replica.exchange.mini_batch_done(4, {1, static_cast<std::uint64_t>(4 * step)}, false),
          Outcome::go_on);
      EXPECT_EQ(replica.moved(), static_cast<float>(moved)) << "after mini-batch " << step;
      replica.settle();
      EXPECT_EQ(job.values()[0][0], static_cast<float>(1 + served)) << step;
    }
    EXPECT_EQ(replica.exchange.flush(), Outcome::go_on);
    double sum = 0;
    for (const float g : gradients) sum += g;
    EXPECT_EQ(job.values()[0][2], static_cast<float>(3 - kServerRate * sum));
    EXPECT_EQ(replica.exchange.acknowledged().samples, 48u);
    EXPECT_EQ(replica.exchange.pushes(), n_push == 1 ? 12u : 4u);
  });
}

TEST(Exchange, IsTheSerialAccount) {
  for (const std::int64_t n_fetch : {1, 3}) {
    for (const std::int64_t n_push : {1, 3}) {
      for (const char* local_steps : {"again", "drop"}) expect_serial(n_fetch, n_push, local_steps);
    }
  }
}

TEST(Exchange, GathersWhileAPushIsUnderWay) {
  comm::World::run_threads(1, [&](comm::World& world) {
    FakeJob job(plan());
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    job.before_push = [&](std::uint64_t, std::uint64_t) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return open; });
    };
    Small replica(world, job, downpour(1000, 1, "again"));
    replica.exchange.connect(replica.service);
    for (int step = 1; step <= 5; ++step) {
      replica.gradient(1);
      EXPECT_EQ(replica.exchange.mini_batch_done(4, {1, static_cast<std::uint64_t>(step)}, false),
                Outcome::go_on);
    }
    EXPECT_EQ(job.values()[0][0], 1);
    EXPECT_EQ(replica.exchange.pushes(), 0u);
    {
      const std::lock_guard lock(mutex);
      open = true;
    }
    changed.notify_all();
    EXPECT_EQ(replica.exchange.flush(), Outcome::go_on);
    // The first by itself, the other four in one.
    EXPECT_EQ(replica.exchange.pushes(), 2u);
    EXPECT_EQ(job.values()[0][0], static_cast<float>(1 - 5 * kServerRate));
  });
}

// Of two replicas, each counts half: their mean moves as fast as one of them.
TEST(Exchange, StatisticsAreMeansOfReplicas) {
  comm::World::run_threads(1, [&](comm::World& world) {
    FakeJob job(plan());
    Small one(world, job, downpour(1000, 1, "again")), two(world, job, downpour(1000, 1, "again"));
    one.exchange.connect(one.service);
    two.exchange.connect(two.service);
    const auto move = [](Small& replica, double to) {
      const torch::NoGradGuard no_grad;
      replica.module.mean.fill_(to);
      replica.exchange.mini_batch_done(4, {1, 4}, false);
      EXPECT_EQ(replica.exchange.flush(), Outcome::go_on);
    };
    move(one, 6);
    move(two, 2);
    EXPECT_EQ(one.vectors.specs()[1].name, "running_mean");
    EXPECT_FALSE(one.vectors.specs()[1].rule);
    ASSERT_EQ(one.vectors.specs().size(), 2u);  // counters stay at home
    // From 4 and 8: the first one's moves, 2 and -2, and half of the second one's, -2 and -6: by
    // then two have pushed.
    EXPECT_EQ(job.values()[1], (std::vector<float>{5, 3}));
  });
}

// In rounds, where it has no samples: the others' gradients alone count, and it has them
// afterwards.
TEST(Exchange, PassesARound) {
  comm::World::run_threads(1, [&](comm::World& world) {
    FakeJob job(plan(0));
    DownpourRecipe rounds = downpour(1, 1, "drop");
    rounds.staleness_bound = 0;
    Small one(world, job, rounds), two(world, job, rounds);
    for (Small* each : {&one, &two}) {
      ASSERT_EQ(each->exchange.connect(each->service), Outcome::go_on);
    }
    std::thread other([&] {
      EXPECT_EQ(two.exchange.pass({2, 0}), Outcome::go_on);
      EXPECT_EQ(two.exchange.acknowledged(), (PortionProgress{2, 0}));
    });
    one.gradient(1);
    EXPECT_EQ(one.exchange.mini_batch_done(1, {1, 1}, true), Outcome::go_on);
    other.join();
    EXPECT_EQ(one.moved(), -kServerRate);
    EXPECT_EQ(two.moved(), -kServerRate);
    EXPECT_EQ(two.exchange.dropped(), 0u);
  });
}

TEST(Exchange, SaysThatItIsLost) {
  comm::World::run_threads(1, [&](comm::World& world) {
    FakeJob job(plan());
    Small replica(world, job, downpour(1, 1, "again"));
    replica.exchange.connect(replica.service);
    replica.gradient(1);
    EXPECT_EQ(replica.exchange.mini_batch_done(4, {1, 4}, false), Outcome::go_on);
    replica.settle();
    job.drop(replica.service.id());
    replica.gradient(1);
    EXPECT_EQ(replica.exchange.mini_batch_done(4, {1, 8}, false), Outcome::lost);
    replica.exchange.disconnect();
    FakeService again(job);
    server::JobDescription description;
    description.vectors = replica.vectors.specs();
    description.epoch_samples = 1000;
    again.join(description, {});
    EXPECT_EQ(replica.exchange.connect(again), Outcome::go_on);
    EXPECT_EQ(replica.moved(), static_cast<float>(-kServerRate));
    replica.exchange.disconnect();
  });
}

TEST(Exchange, AGradientThatIsNoNumberEndsTheReplica) {
  comm::World::run_threads(1, [&](comm::World& world) {
    FakeJob job(plan());
    Small replica(world, job, downpour(1, 1, "again"));
    replica.exchange.connect(replica.service);
    replica.gradient(std::nanf(""));
    replica.exchange.mini_batch_done(4, {1, 4}, false);
    EXPECT_THROW(replica.exchange.flush(), Failure);
  });
}

TEST(Exchange, WhatIsTooStaleIsDropped) {
  comm::World::run_threads(1, [&](comm::World& world) {
    FakeJob job(plan(1));
    Small one(world, job, downpour(1000, 1, "again")), two(world, job, downpour(1000, 1, "again"));
    one.exchange.connect(one.service);
    two.exchange.connect(two.service);
    for (int step = 1; step <= 2; ++step) {
      one.gradient(1);
      one.exchange.mini_batch_done(4, {1, static_cast<std::uint64_t>(step)}, false);
      one.exchange.flush();
    }
    two.gradient(1);
    two.exchange.mini_batch_done(4, {2, 4}, false);
    EXPECT_EQ(two.exchange.flush(), Outcome::go_on);
    EXPECT_EQ(two.exchange.dropped(), 1u);
    EXPECT_EQ(job.values()[0][0], static_cast<float>(1 - 2 * kServerRate));
  });
}

}  // namespace
}  // namespace convoy::train
