// Corners of the reducer: unused parameters, mixed types, several sources, order.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/comm/threads.h"
#include "tests/base/scratch.h"
#include "tests/parallel/mpi_main.h"

namespace convoy::parallel {
namespace {

at::Tensor parameter(std::vector<double> values, at::ScalarType type = torch::kFloat) {
  return torch::tensor(values, torch::kDouble).to(type).set_requires_grad(true);
}

double ranks() { return test_world().size(); }
double rank() { return test_world().rank(); }
double mean_rank() { return (ranks() - 1) / 2; }

TEST(GradientReducer, AveragesMixedTypes) {
  const at::Tensor a = parameter({1, 2}), b = parameter({3}, torch::kDouble),
                   c = parameter({4, 5, 6}, torch::kBFloat16);
  GradientReducer reducer(test_world().communicator(), {{{"a", a}, {"b", b}, {"c", c}}});
  EXPECT_EQ(reducer.buckets().size(), 3u);
  (a.sum().to(torch::kDouble) * rank() + b.sum() * 2 * rank() +
   c.sum().to(torch::kDouble) * 4 * rank())
      .backward();
  EXPECT_FLOAT_EQ(a.grad()[0].item<float>(), static_cast<float>(mean_rank()));
  EXPECT_DOUBLE_EQ(b.grad()[0].item<double>(), 2 * mean_rank());
  EXPECT_NEAR(c.grad()[2].item<float>(), 4 * mean_rank(), 0.05 * ranks());
  EXPECT_EQ(c.grad().scalar_type(), torch::kBFloat16);
}

TEST(GradientReducer, SumsWhenAsked) {
  const at::Tensor a = parameter({1});
  ReducerOptions options;
  options.averaging = Averaging::sum;
  GradientReducer reducer(test_world().communicator(), {{{"a", a}}}, options);
  (a.sum() * (rank() + 1)).backward();
  EXPECT_FLOAT_EQ(a.grad()[0].item<float>(), static_cast<float>(ranks() * (ranks() + 1) / 2));
}

TEST(GradientReducer, NamesParametersWithoutAGradient) {
  // On every rank alike, so that each throws before it waits; the world stays usable.
  const at::Tensor used = parameter({1}), unused = parameter({2}), other = parameter({2});
  GradientReducer reducer(test_world().communicator(),
                          {{{"used", used}, {"unused", unused}, {"other", other}}});
  try {
    used.sum().backward();
    FAIL() << "accepted";
  } catch (const UsageError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("no gradient for unused, other"), std::string::npos) << text;
    EXPECT_NE(text.find("allow_unused"), std::string::npos);
  }
}

TEST(GradientReducer, AllowsUnusedParameters) {
  ReducerOptions options;
  options.allow_unused = true;
  const at::Tensor always = parameter({1}), sometimes = parameter({2}), never = parameter({3});
  GradientReducer reducer(test_world().communicator(),
                          {{{"always", always}, {"sometimes", sometimes}, {"never", never}}},
                          options);
  for (int step = 0; step < 3; ++step) {
    for (const auto& p : {always, sometimes, never}) p.mutable_grad() = at::Tensor();
    at::Tensor loss = always.sum();
    if (test_world().rank() == 0) loss = loss + 6 * sometimes.sum();
    loss.backward();
    EXPECT_FLOAT_EQ(always.grad()[0].item<float>(), 1);
    EXPECT_FLOAT_EQ(sometimes.grad()[0].item<float>(), static_cast<float>(6 / ranks()));
    EXPECT_FALSE(never.grad().defined());
  }
}

// x and y, with no gradient for y on the first rank.
struct OfXAlone : torch::autograd::Function<OfXAlone> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x,
                            const at::Tensor& y) {
    return x + y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list dy) {
    return {dy[0], test_world().rank() == 0 ? at::Tensor() : dy[0]};
  }
};

TEST(GradientReducer, TakesUndefinedGradientsForZeros) {
  for (const bool allow_unused : {false, true}) {
    ReducerOptions options;
    options.allow_unused = allow_unused;
    const at::Tensor x = parameter({1}), y = parameter({2});
    GradientReducer reducer(test_world().communicator(), {{{"x", x}, {"y", y}}}, options);
    for (int step = 0; step < 2; ++step) {
      for (const auto& p : {x, y}) p.mutable_grad() = at::Tensor();
      OfXAlone::apply(x, y).sum().backward();
      EXPECT_FLOAT_EQ(x.grad()[0].item<float>(), 1);
      if (ranks() > 1 || !allow_unused)
        EXPECT_FLOAT_EQ(y.grad()[0].item<float>(), static_cast<float>((ranks() - 1.0) / ranks()));
      else
        EXPECT_FALSE(y.grad().defined());
    }
  }
}

TEST(GradientReducer, LearnsTheOrderOfBackward) {
  // Registered so that the reversed order is wrong: b's gradient comes first.
  const at::Tensor b = parameter({1, 1, 1, 1}), a = parameter({2, 2, 2, 2});
  ReducerOptions options;
  options.first_bucket_bytes = options.bucket_bytes = 16;
  GradientReducer reducer(test_world().communicator(), {{{"b", b}, {"a", a}}}, options);
  EXPECT_EQ(reducer.buckets(), (std::vector<std::vector<std::string>>{{"a"}, {"b"}}));
  for (int step = 0; step < 3; ++step) {
    b.mutable_grad() = at::Tensor();
    a.mutable_grad() = at::Tensor();
    (torch::exp(a) * b).sum().backward();
    EXPECT_FLOAT_EQ(b.grad()[0].item<float>(), std::exp(2.F));
  }
  EXPECT_EQ(reducer.buckets(), (std::vector<std::vector<std::string>>{{"b"}, {"a"}}));
  EXPECT_EQ(reducer.statistics().steps, 3u);
  EXPECT_EQ(reducer.statistics().bytes, 32u);
}

// Two devices of one learner: each its own copy of the parameters and its own thread.
TEST(GradientReducer, SumsSeveralSourcesPerRank) {
  std::vector<std::vector<NamedTensor>> sources;
  for (int s = 0; s < 2; ++s)
    sources.push_back({{"w", parameter({1, 2, 3})}, {"v", parameter({4})}});
  GradientReducer reducer(test_world().communicator(), sources);
  for (int step = 0; step < 20; ++step) {
    std::vector<std::thread> threads;
    for (int s = 0; s < 2; ++s) {
      threads.emplace_back([&, s] {
        auto& p = sources[static_cast<std::size_t>(s)];
        for (auto& t : p) t.tensor.mutable_grad() = at::Tensor();
        reducer.count_samples(s + 1, s);  // 1 and 2 samples
        (p[0].tensor.sum() * (10 * rank() + s) + p[1].tensor.sum()).backward();
      });
    }
    for (auto& thread : threads) thread.join();
    // (1 (10 r + 0) + 2 (10 r + 1)) / 3, averaged over r
    const auto want = static_cast<float>(10 * mean_rank() + 2.0 / 3);
    for (auto& source : sources) {
      ASSERT_NEAR(source[0].tensor.grad()[1].item<float>(), want, 1e-5);
      ASSERT_NEAR(source[1].tensor.grad()[0].item<float>(), 1, 1e-6);
    }
  }
}

// Weights need not be whole. One that is 0 is none: even a mean over nothing does no harm.
TEST(GradientReducer, TakesAnyWeight) {
  const at::Tensor w = parameter({1, 2, 3});
  GradientReducer reducer(test_world().communicator(), {{{"w", w}}});
  double all = 0, want = 0;
  const auto weight_of = [](double r) { return r == 0 && ranks() > 1 ? 0.0 : 0.25 * (r + 1); };
  for (double r = 0; r < ranks(); ++r) {
    all += weight_of(r);
    want += weight_of(r) * (r + 1);
  }
  for (int step = 0; step < 3; ++step) {
    w.mutable_grad() = at::Tensor();
    const double weight = weight_of(rank());
    reducer.count_samples(weight);
    (w.sum() * (weight > 0 ? rank() + 1.0 : std::nan(""))).backward();
    EXPECT_NEAR(w.grad()[2].item<double>(), want / all, 1e-6);
  }
  // Micro-batches of nothing count as micro-batches.
  w.mutable_grad() = at::Tensor();
  for (int part = 0; part < 2; ++part) reducer.count_samples(rank() == 0 && part > 0 ? 0.0 : 1.5);
  (w.sum() * (rank() + 1.0)).backward();
  const double first = 0.5, others = ranks() * (ranks() + 1) / 2.0 - 1;
  EXPECT_NEAR(w.grad()[0].item<double>(), (first + others) / (first + ranks() - 1), 1e-6);
  for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity(), 0.99e-12,
                             1.01e15, std::numeric_limits<double>::denorm_min()})
    EXPECT_THROW(reducer.count_samples(wrong), UsageError);
}

// Whatever a count may be, gradients come out as they are.
TEST(GradientReducer, TakesSmallAndLargeWeights) {
  using R = GradientReducer;
  for (const double nominal : {1.0, 1e7}) {
    for (const double weight : {R::kLeastSamples, 1e-6, 1e6, R::kMostSamples}) {
      const at::Tensor w = parameter({1, 2, 3});
      ReducerOptions options;
      options.nominal_samples = nominal;
      GradientReducer reducer(test_world().communicator(), {{{"w", w}}}, options);
      for (const double gradient : {1e-8, 1.0, 1e8}) {
        w.mutable_grad() = at::Tensor();
        reducer.count_samples(weight);
        (w.sum() * gradient).backward();
        EXPECT_NEAR(w.grad()[1].item<double>() / gradient, 1, 1e-5) << weight << " " << nominal;
      }
    }
  }
}

// What backward throws in each of two sources, which have a thread each; empty where it throws
// nothing.
std::vector<std::string> errors_of(const std::vector<std::function<void()>>& backward_of_source) {
  std::vector<std::string> errors(backward_of_source.size());
  std::vector<std::thread> threads;
  for (std::size_t s = 0; s < backward_of_source.size(); ++s) {
    threads.emplace_back([&, s] {
      try {
        backward_of_source[s]();
      } catch (const std::exception& e) {
        errors[s] = e.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

// In a world of one rank: others would be left with a bucket that this one may have started or not.
TEST(GradientReducer, AnErrorInOneSourceEndsTheOthers) {
  World alone(std::move(comm::thread_transports(1).front()), WorldOptions());
  for (const bool reducers : {false, true}) {
    std::vector<std::vector<NamedTensor>> sources;
    for (int s = 0; s < 2; ++s) {
      sources.push_back(
          {{"w", torch::ones({5, 2}).set_requires_grad(true)}, {"v", parameter({4})}});
    }
    GradientReducer reducer(alone.communicator(), sources);
    const auto good = [&] { (sources[0][0].tensor.sum() + sources[0][1].tensor.sum()).backward(); };
    const auto bad = [&] {
      const at::Tensor w = sources[1][0].tensor, v = sources[1][1].tensor;
      if (reducers) {  // can't reduce what is sparse
        const at::Tensor rows = torch::embedding(w, torch::tensor({1, 3}), -1, false, true);
        return (rows.sum() + v.sum()).backward();
      }
      const at::Tensor twice = w * 2;
      twice.register_hook(
          [](const at::Tensor&) -> at::Tensor { throw std::runtime_error("of the caller"); });
      // v's gradient comes first.
      (torch::exp(twice).sum() * 2 + v.sum()).backward();
    };
    const std::vector<std::string> errors = errors_of({good, bad});
    if (reducers) {
      EXPECT_NE(errors[0].find("parse"), std::string::npos) << errors[0];
      EXPECT_NE(errors[1].find("parse"), std::string::npos) << errors[1];
    } else {
      EXPECT_NE(errors[0].find("the backward pass of source 1 was ended by an exception"),
                std::string::npos)
          << errors[0];
      EXPECT_NE(errors[1].find("of the caller"), std::string::npos) << errors[1];
    }
    EXPECT_NE(errors_of({good})[0], "") << "usable again?";
  }
}

TEST(GradientReducer, ASourceThatNeverRunsIsNamed) {
  WorldOptions options;
  options.timeout = std::chrono::milliseconds(500);
  World alone(std::move(comm::thread_transports(1).front()), options);
  std::vector<std::vector<NamedTensor>> sources{{{"w", parameter({1})}}, {{"w", parameter({1})}}};
  GradientReducer reducer(alone.communicator(), sources);
  const std::string error = errors_of({[&] { sources[0][0].tensor.sum().backward(); }})[0];
  EXPECT_NE(error.find("source 0 has waited"), std::string::npos) << error;
  EXPECT_NE(error.find("for that of source 1"), std::string::npos) << error;
}

// The first rank's backward begins when the others, which have a backward of their own or nothing
// to add, have begun to work instead of waiting for it.
TEST(GradientReducer, WorksInsteadOfWaiting) {
  const bool late = rank() == 0 && ranks() > 1;
  const comm::Communicator apart = test_world().communicator().duplicate();
  const at::Tensor a = parameter({1});
  ReducerOptions options;
  options.nominal_samples = 1;  // or ranks agree on it in the first step, and wait for each other
  GradientReducer reducer(test_world().communicator(), {{{"a", a}}}, options);
  for (const bool join : {false, true}) {
    std::vector<ReductionSpan> spans;
    reducer.set_observer([&](const ReductionSpan& span) { spans.push_back(span); });
    int calls = 0;
    Clock::time_point begin, end;
    reducer.set_meanwhile([&] {
      if (++calls > 1 || late) return false;
      begin = Clock::now();
      apart.barrier();
      end = Clock::now();
      return true;
    });
    a.mutable_grad() = at::Tensor();
    const at::Tensor loss = a.sum() * (rank() + 1);
    if (late) apart.barrier();
    if (join && rank() > 0) {
      EXPECT_TRUE(reducer.join_with_zeros());
    } else {
      loss.backward();
    }
    EXPECT_FLOAT_EQ(a.grad()[0].item<float>(), static_cast<float>(join ? 1 : mean_rank() + 1));
    if (ranks() == 1) continue;  // nothing is under way
    EXPECT_LE(calls, late ? 1 : 2) << "it has said that nothing is left";
    EXPECT_TRUE(late || calls >= 1);
    for (const ReductionSpan& span : spans) {
      if (span.kind == ReductionSpan::Kind::wait && !late) {
        EXPECT_TRUE(span.end <= begin || span.begin >= end);
      }
    }
  }
  reducer.set_observer({});
  int calls = 0;
  reducer.set_meanwhile([&] { return ++calls > 0; });
  reducer.set_meanwhile({});
  (a.sum() * 2).backward();
  EXPECT_EQ(calls, 0);
}

// Several passes add up, and one gradient is computed by the caller, after them; the first rank has
// nothing of another.
TEST(GradientReducer, TakesGradientsThatAreGiven) {
  const at::Tensor a = parameter({1, 2}), b = parameter({3}), c = parameter({4, 5});
  ReducerOptions options;
  options.averaging = Averaging::sum;
  options.first_bucket_bytes = options.bucket_bytes = 4;
  GradientReducer reducer(test_world().communicator(), {{{"a", a}, {"b", b}, {"c", c}}}, options);
  reducer.set_synchronizing(false);
  at::Tensor place;  // of a gradient that is computed where it is reduced
  for (int step = 0; step < 3; ++step) {
    for (const auto& p : {a, b, c}) p.mutable_grad() = at::Tensor();
    for (int pass = 0; pass < 2; ++pass) {
      at::Tensor loss = a.sum() * (rank() + 1);
      if (rank() > 0) loss = loss + b.sum() * rank();
      loss.backward();
    }
    reducer.give_gradient(0);
    reducer.give_gradient(1);
    if (!place.defined()) place = torch::empty({2});
    c.mutable_grad() = place.fill_(rank());
    reducer.give_gradient(2);
    reducer.finish_step();
    EXPECT_FLOAT_EQ(a.grad()[1].item<float>(), static_cast<float>(ranks() * (ranks() + 1)));
    const auto twice = static_cast<float>(ranks() * (ranks() - 1)), once = twice / 2;
    EXPECT_FLOAT_EQ(b.grad()[0].item<float>(), twice);
    EXPECT_FLOAT_EQ(c.grad()[0].item<float>(), once);
    // The order that was measured in the first step makes other buckets.
    if (step > 1) EXPECT_EQ(reducer.statistics().in_place_bytes, 8U);
    place = c.grad();
  }
  EXPECT_EQ(reducer.statistics().steps, 3U);
  reducer.give_gradient(0);
  EXPECT_THROW(reducer.give_gradient(0), UsageError);
  EXPECT_THROW(reducer.give_gradient(3), UsageError);
  EXPECT_NE(
      test::message_of<UsageError>([&] { reducer.finish_step(); }).find("no gradient for b, c"),
      std::string::npos);
}

// A rank of which nothing comes takes part all the same, whoever else has something.
TEST(GradientReducer, WithoutAnyGradientThatIsGiven) {
  const at::Tensor a = parameter({1, 2}), b = parameter({3}), frozen = torch::ones({2});
  ReducerOptions options;
  options.averaging = Averaging::sum;
  options.allow_unused = true;
  GradientReducer reducer(test_world().communicator(), {{{"frozen", frozen}, {"a", a}, {"b", b}}},
                          options);
  reducer.set_synchronizing(false);
  for (int step = 0; step < 2; ++step) {
    for (const auto& p : {a, b}) p.mutable_grad() = at::Tensor();
    if (rank() > 0) {
      (a.sum() * rank()).backward();
      reducer.give_gradient(0);  // what is frozen has no number
    }
    reducer.finish_step();
    ASSERT_EQ(a.grad().defined(), ranks() > 1);
    if (ranks() > 1) EXPECT_FLOAT_EQ(a.grad()[1].item<float>(), ranks() * (ranks() - 1) / 2.f);
    EXPECT_FALSE(b.grad().defined());
  }
  EXPECT_EQ(reducer.statistics().steps, 2U);
  EXPECT_THROW(reducer.give_gradient(2), UsageError);
}

TEST(GradientReducer, HooksGoWithIt) {
  const at::Tensor a = parameter({1});
  { GradientReducer reducer(test_world().communicator(), {{{"a", a}}}); }
  (a.sum() * (rank() + 1)).backward();
  EXPECT_FLOAT_EQ(a.grad()[0].item<float>(), static_cast<float>(rank() + 1));
}

}  // namespace
}  // namespace convoy::parallel
