// A world that is arranged: a strategy with a grid, half of the network on each of two partitions,
// and no samples read on half of the ranks.
#include "convoy/data/loader.h"
#include "convoy/parallel/grid.h"
#include "convoy/train/trained.h"
#include "tests/train/halves.h"
#include "tests/train/trainer_fixture.h"
#include "tests/train/words.h"
#include "train/samples/handed_source.h"

namespace convoy::train {
namespace {

class ArrangedTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    testing_data::add_halves(registry_);
    testing_data::add_words(registry_);
  }
  bool even() const { return test_world().size() % 2 == 0; }
  Recipe chain(const std::string& name, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), "model.name=chain");
    return recipe(name, overrides);
  }
  Recipe halves(const std::string& name, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), {"strategy=halves", "grid.partitions=2"});
    return chain(name, overrides);
  }
  RunResult train_until(const Recipe& r, int updates, const std::string& resume = "") {
    TrainerOptions options;
    options.resume = resume;
    options.progress = false;
    int asked = 0;
    // Any rank may be told.
    if (test_world().rank() == test_world().size() - 1 && updates > 0)
      options.should_stop = [&] { return ++asked >= updates; };
    return Trainer(test_world(), registry_, r, options).run();
  }
};

TEST_F(ArrangedTest, TrainsAsTheWholeWould) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  for (const Overrides& how :
       {Overrides{}, Overrides{"model.options.dropout=0.5"}, Overrides{"training.clip_norm=0.05"},
        Overrides{"data.on_bad=skip", "data.train.bad_every=7"}}) {
    std::string name;
    for (const std::string& one : how) name += one.substr(one.size() - 4);
    const RunResult whole = train_until(chain("whole" + name, how), 0);
    const RunResult parts = train_until(halves("halves" + name, how), 0);
    EXPECT_EQ(whole.steps, parts.steps);
    EXPECT_NEAR(whole.loss, parts.loss, 1e-9);
    EXPECT_LT(largest_difference(whole.checkpoint, parts.checkpoint), 1e-9) << name;
    ASSERT_TRUE(parts.evaluation);
    EXPECT_EQ(parts.evaluation->samples, 40u);
    EXPECT_EQ(parts.evaluation->at("top1"), whole.evaluation->at("top1"));
    EXPECT_NEAR(parts.evaluation->at("loss"), whole.evaluation->at("loss"), 1e-9);
  }
}

TEST_F(ArrangedTest, StoppedAndResumedItSeesEachSampleOnce) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  const Recipe whole = halves("uninterrupted"),
               parts = halves("parts", {"output.log_samples=true"});
  const std::string expected = train_until(whole, 0).checkpoint;
  EXPECT_TRUE(train_until(parts, 3).stopped);
  EXPECT_TRUE(train_until(parts, 5, "latest").stopped);
  const RunResult end = train_until(parts, 0, "latest");
  EXPECT_EQ(end.steps, 18);
  EXPECT_EQ(largest_difference(expected, end.checkpoint), 0);
  all().barrier();
  if (first()) {
    expect_each_once(parts, 3 * 61);
    // Nobody else has read any.
    std::size_t readers = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(parts.output.folder + "/samples")) {
      readers += entry.path().extension() == ".log" ? 1 : 0;
    }
    EXPECT_EQ(readers, static_cast<std::size_t>(test_world().size()) / 2);
  }
  all().barrier();
}

TEST_F(ArrangedTest, WhatWasTrainedInPartsIsEvaluatedAndPredictsInParts) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  const Recipe r = halves("used");
  const RunResult result = train_until(r, 0);
  all().barrier();
  Trained trained(test_world(), registry_,
                  find_trained(registry_, r.output.folder, Which::newest, {}));
  const auto data = registry_.open_data(r.data.reader, r.data.validation);
  EXPECT_EQ(trained.evaluate(data).at("top1"), result.evaluation->at("top1"));
}

TEST_F(ArrangedTest, AGridThatDoesNotFitIsSaid) {
  const int ranks = test_world().size();
  const std::string said = refusal(halves("grid", {"grid.replicas=5"}));
  EXPECT_NE(said.find("the grid of 5 x 2 (replicas x partitions)"), std::string::npos) << said;
  EXPECT_NE(said.find("these would: " + std::to_string(ranks) + " x 1"), std::string::npos) << said;
  const std::string both = test::message_of<UsageError>([&] {
    chain("mistakes", {"strategy=halves", "grid.partitions=5", "optimizer.lr=-1",
                       R"(placement.layers=[{layers=["fcc"], how="replicated"}])"});
  });
  EXPECT_NE(both.find("chain has no layer that fits 'fcc'; did you mean fc"), std::string::npos)
      << both;
  EXPECT_NE(both.find("halves has at most 4 partitions"), std::string::npos) << both;
  EXPECT_NE(both.find("lr"), std::string::npos) << both;
}

// Records and images, empty batches and the ends of epochs: what others get is what rank 0 reads.
TEST_F(ArrangedTest, SamplesAreHandedOnAsTheyAre) {
  const auto words = std::make_shared<testing_data::Words>(50);
  const auto images = std::make_shared<testing_data::Stripes>(50, testing_data::Stripes::Bad{3, 9});
  for (const bool raw : {true, false}) {
    const std::shared_ptr<const data::Dataset> data =
        raw ? std::shared_ptr<const data::Dataset>(words) : images;
    data::LoaderOptions options;
    options.batch = 16;
    options.world = 3;  // share 2 of 3: sometimes nothing
    options.rank = 2;
    options.raw = raw;
    options.on_bad = data::OnBad::skip;
    if (raw) options.cost = testing_data::NextLetter().cost(*data);
    data::Loader expected(data, data::TransformOptions(), options);
    options.nothing = !first();
    HandedSource handed(std::make_unique<data::Loader>(data, data::TransformOptions(), options),
                        all());
    for (int batches = 0; batches < 40; ++batches) {
      const data::Batch* want = expected.next();
      const data::Batch* got = handed.next();
      ASSERT_EQ(want == nullptr, got == nullptr);
      EXPECT_EQ(handed.position(), expected.position());
      if (want == nullptr) continue;
      const auto same = [](auto a, auto b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
      };
      EXPECT_TRUE(same(got->samples, want->samples));
      EXPECT_TRUE(same(got->labels, want->labels));
      EXPECT_TRUE(same(got->bytes, want->bytes));
      EXPECT_TRUE(same(got->images, want->images));
      EXPECT_TRUE(same(got->records, want->records));
      EXPECT_EQ(got->shape, want->shape);
      EXPECT_EQ(got->views, want->views);
    }
  }
}

TEST(Grid, HasReplicasAndPartitions) {
  const comm::Communicator& all = test_world().communicator();
  for (int partitions = 1; partitions <= all.size(); ++partitions) {
    if (all.size() % partitions != 0) {
      EXPECT_THROW(parallel::GridShape::of(0, partitions, all.size()), UsageError);
      continue;
    }
    const parallel::Grid grid(all, parallel::GridShape::of(0, partitions, all.size()));
    EXPECT_EQ(grid.partitions().size(), partitions);
    EXPECT_EQ(grid.partitions().rank(), grid.partition());
    EXPECT_EQ(grid.replicas().size(), all.size() / partitions);
    EXPECT_EQ(grid.replicas().rank(), grid.replica());
    EXPECT_EQ(grid.replica() * partitions + grid.partition(), all.rank());
  }
  EXPECT_THROW(parallel::GridShape::of(1, 0, all.size()), UsageError);
  EXPECT_THROW(parallel::GridShape::of(all.size() + 1, 1, all.size()), UsageError);
}

}  // namespace
}  // namespace convoy::train
