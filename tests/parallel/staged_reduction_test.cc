// Gradients that reach the other ranks through the memory of the host: to the bits of those that
// are reduced as they lie.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/reduction_step.h"
#include "tests/parallel/late_copies.h"
#include "tests/parallel/mpi_main.h"

namespace convoy::parallel {
namespace {

std::vector<NamedTensor> some_parameters() {
  const at::Tensor filters = torch::zeros({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  return {{"filters", filters.set_requires_grad(true)},
          {"bias", torch::zeros({5}).set_requires_grad(true)},
          {"weight", torch::zeros({7, 11}).set_requires_grad(true)},
          {"wide", torch::zeros({6}, torch::kDouble).set_requires_grad(true)}};
}

at::Tensor gradient_for(const at::Tensor& parameter, int step, std::size_t source, std::size_t i) {
  const int number =
      1000 * step + 100 * static_cast<int>(source) + 10 * test_world().rank() + static_cast<int>(i);
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(number));
  const at::Tensor values = torch::randn(parameter.sizes(), generator,
                                         at::TensorOptions().dtype(parameter.scalar_type()));
  return at::empty_like(parameter.detach()).copy_(values);
}

constexpr int kSteps = 5;
constexpr int kUnused = 2, kJoined = 3;  // steps in which a rank has less, and nothing

// What is in .grad after each step, of all parameters of all sources.
std::vector<at::Tensor> reduced(const ReducerOptions& options, std::size_t sources,
                                std::unique_ptr<DeviceCopies> copies) {
  std::vector<std::vector<NamedTensor>> parameters;
  for (std::size_t s = 0; s < sources; ++s) parameters.push_back(some_parameters());
  const comm::Communicator& all = test_world().communicator();
  const comm::Communicator own =
      options.reproducible ? all.with_reproducible(true) : all.duplicate();
  ReductionStep reduction(own, parameters, options, std::move(copies));
  const bool last = all.size() > 1 && all.rank() == all.size() - 1;
  std::vector<at::Tensor> after;
  for (int step = 0; step < kSteps; ++step) {
    if (step == kJoined && last) {
      EXPECT_TRUE(reduction.join_with_zeros());
    } else {
      for (std::size_t s = 0; s < sources; ++s)
        reduction.count_samples(s, 1.5 + all.rank() + 2 * static_cast<double>(s));
      for (std::size_t n = sources * parameters[0].size(); n-- > 0;) {
        const std::size_t i = n / sources, s = n % sources;
        if (options.allow_unused && step == kUnused && i == 1 && all.rank() == 0) continue;
        // Half of them are computed where they were reduced before, which sources share.
        const at::Tensor& parameter = parameters[s][i].tensor;
        const at::Tensor gradient = gradient_for(parameter, step, s, i);
        at::Tensor& grad = parameter.mutable_grad();
        if (sources == 1 && i % 2 == 0 && grad.defined()) {
          grad.copy_(gradient);
        } else {
          grad = gradient;
        }
        reduction.gradient_ready(s, i);
      }
      reduction.finish();
    }
    for (const auto& source : parameters) {
      for (const NamedTensor& parameter : source)
        after.push_back(parameter.tensor.grad().detach().clone());
    }
  }
  EXPECT_EQ(reduction.statistics().steps, static_cast<std::uint64_t>(kSteps));
  return after;
}

void expect_the_same_bits(const ReducerOptions& options, const std::string& what,
                          std::size_t sources = 1) {
  const std::vector<at::Tensor> direct = reduced(options, sources, nullptr);
  const auto begun = std::make_shared<BegunCopies>();
  const std::vector<at::Tensor> staged =
      reduced(options, sources, std::make_unique<LateCopies>(begun));
  ASSERT_EQ(direct.size(), staged.size());
  for (std::size_t i = 0; i < direct.size(); ++i) {
    EXPECT_TRUE(torch::equal(direct[i], staged[i])) << what << ", gradient " << i;
    EXPECT_TRUE(same_on_all_ranks(staged[i])) << what << ", gradient " << i;
  }
  // Each bucket went, of every contribution, and came, of which there are three at least.
  const std::size_t copies = (options.reproducible ? sources : 1) + 1;
  EXPECT_GE(begun->all.size(), copies * 3 * static_cast<std::size_t>(kSteps)) << what;
  EXPECT_EQ(begun->all.size() % copies, 0U) << what;
  for (const BegunCopies::One& copy : begun->all) EXPECT_TRUE(copy.done) << what;
}

TEST(StagedReduction, ComesToTheBitsOfTheDirectOne) {
  ReducerOptions options;
  options.first_bucket_bytes = options.bucket_bytes = 128;
  expect_the_same_bits(options, "usual");
  options.averaging = Averaging::sum;
  expect_the_same_bits(options, "sums");
  options.averaging = Averaging::samples;
  options.reproducible = true;
  expect_the_same_bits(options, "reproducible");
  options.wire_type = at::kBFloat16;
  expect_the_same_bits(options, "bfloat16");
  options.gradient_as_bucket_view = false;
  expect_the_same_bits(options, "copies");
}

TEST(StagedReduction, OfParametersThatARankDoesNotUse) {
  ReducerOptions options;
  options.first_bucket_bytes = options.bucket_bytes = 128;
  options.allow_unused = true;
  expect_the_same_bits(options, "unused");
}

// Added up before they go, or each for itself where the sum is to be exact.
TEST(StagedReduction, OfSeveralSources) {
  for (const bool reproducible : {false, true}) {
    ReducerOptions options;
    options.first_bucket_bytes = options.bucket_bytes = 128;
    options.reproducible = reproducible;
    const std::string what = reproducible ? "exact, " : "added up, ";
    expect_the_same_bits(options, what + "two", 2);
    expect_the_same_bits(options, what + "three", 3);
    options.wire_type = at::kBFloat16;
    expect_the_same_bits(options, what + "bfloat16", 2);
    options.wire_type.reset();
    options.allow_unused = true;
    expect_the_same_bits(options, what + "unused", 2);
  }
}

TEST(StagedReduction, CopiesOfTheCpuAreDoneAtOnce) {
  const auto copies = copies_of(at::kCPU);
  const at::Tensor from = torch::arange(6, torch::kFloat), to = copies->host_memory(6, at::kFloat);
  const auto copy = copies->start(to, from);
  from.zero_();
  EXPECT_TRUE(copy->done());
  copy->join();
  wait_until_done(*copy);
  EXPECT_TRUE(torch::equal(to, torch::arange(6, torch::kFloat)));
  EXPECT_EQ(copies->device_memory(3, at::kDouble).scalar_type(), at::kDouble);
}

}  // namespace
}  // namespace convoy::parallel
