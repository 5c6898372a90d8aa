// Devices of one process: sources of a reducer, and replicas of a model.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/comm/threads.h"
#include "tests/base/scratch.h"
#include "tests/parallel/mpi_main.h"

namespace convoy::parallel {
namespace {

World world_alone() { return {std::move(comm::thread_transports(1).front()), WorldOptions()}; }

// In a thread for each.
void in_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// A source's parameters, of several shapes.
std::vector<NamedTensor> source_of(at::ScalarType type) {
  std::vector<NamedTensor> tensors;
  for (const std::int64_t size : {700, 3, 41}) {
    tensors.push_back(
        {"p" + std::to_string(size), torch::zeros({size, 2}, type).set_requires_grad(true)});
  }
  return tensors;
}

struct Contributions {
  int first = 0, count = 1;
};

// The averages of two steps, of contributions that count differently. One of them has nothing in
// the second.
std::vector<at::Tensor> averages_of(const comm::Communicator& communicator, Contributions own,
                                    ReducerOptions options, at::ScalarType type) {
  options.nominal_samples = 2.5;
  options.first_bucket_bytes = options.bucket_bytes = 400;
  const auto sources = static_cast<std::size_t>(own.count);
  std::vector<std::vector<NamedTensor>> parameters;
  for (std::size_t s = 0; s < sources; ++s) parameters.push_back(source_of(type));
  GradientReducer reducer(communicator, parameters, options);
  std::vector<at::Tensor> results;
  for (int step = 0; step < 2; ++step) {
    const auto counts = [&](std::size_t s) {
      const int who = own.first + static_cast<int>(s);
      return step == 1 && who == 1 ? 0.0 : 1.0 + who;
    };
    for (std::size_t s = 0; s < sources; ++s) {
      for (const NamedTensor& p : parameters[s]) p.tensor.mutable_grad() = at::Tensor();
      reducer.count_samples(counts(s), static_cast<int>(s));
    }
    in_threads(sources, [&](std::size_t s) {
      if (counts(s) == 0 && sources > 1) return reducer.skip(static_cast<int>(s));
      at::Tensor loss;
      const int who = own.first + static_cast<int>(s);
      for (std::size_t i = 0; i < parameters[s].size(); ++i) {
        const std::uint64_t seed = static_cast<std::uint64_t>(100 * who + step) + 10'000 * i;
        const at::Tensor& p = parameters[s][i].tensor;
        const at::Tensor gradient =
            torch::randn(p.sizes(), at::detail::createCPUGenerator(seed)).to(type);
        const at::Tensor term = (p * gradient).sum();
        loss = loss.defined() ? loss + term : term;
      }
      loss.backward();
    });
    for (const NamedTensor& p : parameters.front()) results.push_back(p.tensor.grad().clone());
    for (const auto& source : parameters) {
      for (std::size_t i = 0; i < source.size(); ++i)
        EXPECT_TRUE(source[i].tensor.grad().equal(parameters.front()[i].tensor.grad()));
    }
  }
  EXPECT_EQ(reducer.statistics().steps, 2U);
  return results;
}

void expect_equal_bits(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& want,
                       const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(want[i])) << what << i;
}

// However many ranks the same contributions are of, nothing is rounded between the sum of a rank's
// devices and that over ranks.
TEST(SeveralSources, AreContributionsLikeThoseOfRanks) {
  const World alone = world_alone();
  const comm::Communicator& all = test_world().communicator();
  for (const at::ScalarType type : {torch::kFloat, torch::kDouble}) {
    for (const bool wire : {false, true}) {
      if (wire && type == torch::kDouble) continue;
      ReducerOptions options;
      options.reproducible = true;
      if (wire) options.wire_type = at::kBFloat16;
      for (const int each : {1, 2, 3}) {
        const auto got = averages_of(all, {all.rank() * each, each}, options, type);
        const auto want = averages_of(alone.communicator(), {0, all.size() * each}, options, type);
        expect_equal_bits(got, want, std::to_string(each) + " of each rank: ");
      }
    }
  }
}

// Sums that are not reproducible differ in rounding alone: float64 over at most nine terms.
TEST(SeveralSources, HaveTheSameAverageInAnyCase) {
  const World alone = world_alone();
  const comm::Communicator& all = test_world().communicator();
  for (const int each : {2, 3}) {
    const auto got = averages_of(all, {all.rank() * each, each}, {}, torch::kDouble);
    const auto want = averages_of(alone.communicator(), {0, all.size() * each}, {}, torch::kDouble);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(torch::allclose(got[i], want[i], 1e-12, 1e-13)) << i;
  }
}

TEST(SeveralSources, GiveTheirGradients) {
  ReducerOptions options;
  options.reproducible = true;
  std::vector<std::vector<NamedTensor>> sources{source_of(torch::kFloat), source_of(torch::kFloat)};
  GradientReducer reducer(test_world().communicator(), sources, options);
  reducer.set_synchronizing(false);
  for (std::size_t s = 0; s < 2; ++s) {
    reducer.count_samples(1, static_cast<int>(s));
    for (const NamedTensor& p : sources[s])
      (p.tensor.sum() * (static_cast<double>(s) + 1)).backward();
  }
  for (std::size_t i = 3; i-- > 0;) {
    for (int s = 0; s < 2; ++s) reducer.give_gradient(i, s);
  }
  EXPECT_THROW(reducer.give_gradient(0, 2), UsageError);
  reducer.finish_step();
  for (const auto& source : sources) {
    for (const NamedTensor& p : source)
      EXPECT_TRUE(p.tensor.grad().equal(torch::full_like(p.tensor, 1.5))) << p.name;
  }
}

// What says that a source has ended is thrown by those that wait for it, and by all that come
// later.
TEST(SeveralSources, ThatEndEndTheOthers) {
  const World alone = world_alone();
  std::vector<std::vector<NamedTensor>> sources{source_of(torch::kFloat), source_of(torch::kFloat)};
  GradientReducer reducer(alone.communicator(), sources);
  const auto said = [&](std::size_t s) {
    return test::message_of<OtherSourceEnded>([&] {
      (sources[s][0].tensor.sum() + sources[s][1].tensor.sum() + sources[s][2].tensor.sum())
          .backward();
    });
  };
  std::string first;
  in_threads(2, [&](std::size_t s) {
    if (s == 0)
      first = said(0);
    else
      reducer.fail("device 1: there is no more");
  });
  EXPECT_EQ(first, "rank 0: device 1: there is no more");
  EXPECT_EQ(said(1), first);
}

// What one source does wrong is thrown in its own thread alone.
TEST(SeveralSources, HaveErrorsOfTheirOwn) {
  const World alone = world_alone();
  std::vector<std::vector<NamedTensor>> sources{source_of(torch::kFloat), source_of(torch::kFloat)};
  GradientReducer reducer(alone.communicator(), sources);
  reducer.give_gradient(0, 1);  // which backward then brings once more
  std::string own, other;
  in_threads(2, [&](std::size_t s) {
    if (s == 0) {
      other = test::message_of<OtherSourceEnded>([&] { reducer.skip(0); });
    } else {
      own = test::message_of<UsageError>([&] { sources[1][0].tensor.sum().backward(); });
    }
  });
  EXPECT_NE(own.find("'p700' got its gradient twice"), std::string::npos) << own;
  EXPECT_EQ(other, "rank 0: the backward pass of source 1 has ended: " + own);
}

torch::nn::Sequential normalized_net() {
  torch::manual_seed(5);
  torch::nn::Sequential net(torch::nn::Conv2d(2, 4, 3), torch::nn::BatchNorm2d(4),
                            torch::nn::ReLU(), torch::nn::Flatten(), torch::nn::Linear(4 * 16, 5),
                            torch::nn::BatchNorm1d(5));
  net->to(torch::kDouble);
  return net;
}

// Replicas of every rank against one process with the whole batch.
TEST(Replicas, SynchronizeBatchNormalization) {
  constexpr std::size_t kReplicas = 2;
  const int parts = test_world().size() * static_cast<int>(kReplicas);
  for (const bool reproducible : {false, true}) {
    auto serial = normalized_net();
    std::vector<torch::nn::Sequential> nets{normalized_net(), normalized_net()};
    {
      const torch::NoGradGuard no_grad;
      for (const auto& p : nets[1]->parameters()) p.zero_();  // replaced by those of the first
    }
    DistributedOptions options;
    options.batch_norm = BatchNormStatistics::synchronized;
    options.reproducible = reproducible;
    const std::vector<std::shared_ptr<torch::nn::Module>> replicas{nets[0].ptr(), nets[1].ptr()};
    DistributedCore core(test_world().communicator(), replicas, options);
    // Shares of unequal sizes.
    const at::Tensor x = torch::randn({6 * parts + 1, 2, 6, 6}, torch::kDouble) + 10;
    const at::Tensor target = torch::randn({6 * parts + 1, 5}, torch::kDouble);
    std::vector<comm::Chunk> rows;
    for (std::size_t r = 0; r < kReplicas; ++r) {
      rows.push_back(
          comm::chunk(static_cast<std::size_t>(x.size(0)), parts,
                      test_world().rank() * static_cast<int>(kReplicas) + static_cast<int>(r)));
      core.reducer().count_samples(static_cast<double>(rows[r].count), static_cast<int>(r));
    }
    in_threads(kReplicas, [&](std::size_t r) {
      const auto own = [&](const at::Tensor& all) {
        return all.narrow(0, static_cast<std::int64_t>(rows[r].begin),
                          static_cast<std::int64_t>(rows[r].count));
      };
      at::Tensor y;
      {
        const ForwardScope scope(core, r, static_cast<double>(rows[r].count));
        y = nets[r]->forward(own(x));
      }
      torch::mse_loss(y, own(target)).backward();
    });
    torch::mse_loss(serial->forward(x), target).backward();
    for (const auto& net : nets) {
      for (const auto& p : serial->named_parameters()) {
        EXPECT_TRUE(
            at::allclose(net->named_parameters()[p.key()].grad(), p.value().grad(), 1e-8, 1e-9))
            << p.key();
      }
      for (const auto& b : serial->named_buffers()) {
        EXPECT_TRUE(at::allclose(net->named_buffers()[b.key()].to(torch::kDouble),
                                 b.value().to(torch::kDouble), 1e-9, 1e-9))
            << b.key();
      }
    }
  }
}

TEST(Replicas, ThatDifferAreRefused) {
  const std::vector<std::shared_ptr<torch::nn::Module>> unlike{torch::nn::Linear(2, 3).ptr(),
                                                               torch::nn::Linear(2, 4).ptr()};
  EXPECT_NE(test::message_of<UsageError>([&] {
              DistributedCore(test_world().communicator(), unlike, {});
            }).find("replica 1 of this process is another model than the first"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::parallel
