// Trainings on GPUs, beside the same ones on CPUs.
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cmath>
#include <string>
#include <vector>

#include "convoy/train/trained.h"
#include "tests/cuda/needs_gpu.h"
#include "tests/train/hybrid_fixture.h"
#include "tests/train/plain_networks.h"

namespace convoy::train {
namespace {

// In float64, sums over a few hundred products in another order differ by some 1e-15 of them, and
// 18 updates make of that what they make of any rounding.
constexpr double kAsTheCpu = 1e-8;

class CudaTest : public HybridTest {
 protected:
  void SetUp() override {
    HybridTest::SetUp();
    registry_.add_model("plain", plain_network, {{"dropout", 0.0, "its probability"}});
  }

  // A recipe for each of the two.
  void expect_as_the_cpu(const std::string& name, const Overrides& overrides) {
    const RunResult cpu = train(recipe(name + "-cpu", overrides));
    const RunResult gpu = train(recipe(name + "-gpu", overrides + Overrides{"device=cuda"}));
    expect_equal(cpu, gpu, name, kAsTheCpu);
  }
};

TEST_F(CudaTest, SyncTrainsAsOnTheCpu) {
  NEEDS_A_GPU();
  expect_as_the_cpu("plain", {});
  expect_as_the_cpu("norm", {"model.options.norm=true", "sync.batch_norm=synchronized",
                             "data.drop_last=true", "training.accumulate=2"});
  expect_as_the_cpu("adam", {"optimizer.name=adam", "optimizer.momentum=0", "optimizer.lr=0.01",
                             "training.clip_norm=0.5"});
  expect_as_the_cpu("planar", {"model.channels_last=false", "sync.reproducible=true"});
}

TEST_F(CudaTest, TheOtherStrategiesDoAsWell) {
  NEEDS_A_GPU();
  const std::string partitions = "grid.partitions=" + std::to_string(ranks());
  expect_as_the_cpu("hybrid", {"strategy=hybrid", partitions, "model.name=net", "model.classes=8",
                               "training.epochs=1"});
  if (ranks() > 1)
    expect_as_the_cpu("partitioned", {"strategy=partitioned", partitions, "model.name=plain",
                                      "model.classes=8", "training.epochs=1"});
}

// Of one GPU, which all of them share.
TEST_F(CudaTest, SeveralDevicesOfARankDoAsWell) {
  NEEDS_A_GPU();
  const RunResult cpu = train(recipe("devices-cpu"));
  for (const std::string table : {"optimized", "baseline"}) {
    for (const std::string reproducible : {"false", "true"}) {
      const std::string name = "devices-" + table + "-" + reproducible;
      const RunResult gpu =
          train(recipe(name, {"device=cuda", "sync.devices=2", "sync.gpus=[0, 0]",
                              "sync.table=" + table, "sync.reproducible=" + reproducible}));
      expect_equal(cpu, gpu, name, kAsTheCpu);
    }
  }
}

// Also where another process evaluates, whichever GPU that is.
TEST_F(CudaTest, AnEvaluationIsOnTheFirstDevice) {
  NEEDS_A_GPU();
  const Recipe r = recipe("first", {"device=cuda", "sync.devices=2", "sync.gpus=[0, 0]"});
  const RunResult result = train(r);
  all().barrier();
  const int last = gpus() - 1;
  Trained trained(test_world(), registry_,
                  find_trained(registry_, r.output.folder, Which::newest,
                               {"sync.gpus=[" + std::to_string(last) + ", 0]"}));
  EXPECT_EQ(c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getDevice().index(), last);
  const Evaluation again = trained.evaluate(registry_.open_data(r.data.reader, r.data.validation));
  EXPECT_NEAR(again.at("loss"), result.evaluation->at("loss"), kAsTheCpu);
}

// bfloat16 has three digits; what is trained is easy.
TEST_F(CudaTest, NarrowTypesTrainToo) {
  NEEDS_A_GPU();
  const RunResult cpu = train(recipe("single-cpu", {"precision=float32"}));
  for (const Overrides& narrow : std::vector<Overrides>{
           {"precision=float32"}, {"precision=float32", "tf32=true"}, {"precision=bfloat16"}}) {
    const RunResult gpu =
        train(recipe("narrow-" + narrow.back(), narrow + Overrides{"device=cuda"}));
    EXPECT_TRUE(std::isfinite(gpu.loss));
    EXPECT_NEAR(gpu.loss, cpu.loss, 0.2 * std::abs(cpu.loss)) << narrow.back();
  }
}

TEST_F(CudaTest, ReproducibleTrainingsHaveTheSameBits) {
  NEEDS_A_GPU();
  const Overrides same{"precision=float32", "device=cuda", "sync.reproducible=true"};
  const RunResult one = train(recipe("one", same)), two = train(recipe("two", same));
  if (first()) EXPECT_TRUE(same_tensors(one.checkpoint, two.checkpoint));
}

TEST_F(CudaTest, ARunGoesOnElsewhere) {
  NEEDS_A_GPU();
  const RunResult whole = train(recipe("whole"));
  const Recipe on_gpu = recipe("moved", {"device=cuda"});
  train(on_gpu, 8);
  const RunResult rest = train(recipe("moved"), 0, "latest");
  expect_equal(whole, rest, "begun on a GPU", kAsTheCpu);
  train(recipe("back"), 8);
  const RunResult back = train(recipe("back", {"device=cuda"}), 0, "latest");
  expect_equal(whole, back, "begun on the CPU", kAsTheCpu);
  if (!first() || !device_memory(open_device("cuda", 0))) return;
  for (const auto& row : rows(on_gpu, "step")) {
    if (!row.contains("device_memory_peak_bytes")) continue;
    EXPECT_GE(row.at("device_memory_peak_bytes").get<double>(),
              row.at("device_memory_bytes").get<double>());
  }
}

TEST_F(CudaTest, AGpuThatIsNotThereIsRefused) {
  NEEDS_A_GPU();
  const std::string text = refusal(recipe("none", {"device=\"cuda:100\""}));
  EXPECT_EQ(text.find("device is \"cuda:100\", but "), 0U) << text;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/none"));
}

}  // namespace
}  // namespace convoy::train
