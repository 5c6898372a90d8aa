// A world that is arranged: a strategy with a grid, half of the network on each of two partitions,
// and no samples read on half of the ranks.
#include "convoy/data/loader.h"
#include "convoy/parallel/grid.h"
#include "convoy/train/export.h"
#include "convoy/train/safetensors.h"
#include "convoy/train/trained.h"
#include "data/pack/png.h"
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
  const auto used = [&](const std::vector<std::string>& how) {
    return Trained(test_world(), registry_,
                   find_trained(registry_, r.output.folder, Which::newest, how));
  };
  Trained parts = used({}), whole = used({"strategy=sync", "grid.partitions=1"});
  const auto data = registry_.open_data(r.data.reader, r.data.validation);
  EXPECT_EQ(parts.evaluate(data).at("top1"), result.evaluation->at("top1"));
  // More pictures than are taken at a time, and one that is none.
  std::vector<std::string> files{r.output.folder + "/recipe.toml"};
  for (int i = 0; i < 20; ++i) {
    data::Image image{6, 6, 1, std::vector<std::uint8_t>(36, static_cast<std::uint8_t>(12 * i))};
    image.pixels[7] = 255;
    files.push_back(folder_ + "/" + std::to_string(i) + ".png");
    const std::vector<std::byte> bytes = data::encode_png(image);
    if (first())
      test::spill(files.back(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  all().barrier();
  const auto mine = parts.predict(files, 3), expected = whole.predict(files, 3);
  ASSERT_EQ(mine.size(), files.size());
  EXPECT_NE(mine[0].error, "");
  EXPECT_TRUE(mine[0].lines.empty());
  for (std::size_t i = 1; i < files.size(); ++i) {
    EXPECT_EQ(mine[i].lines.size(), 3u) << mine[i].error;
    EXPECT_EQ(mine[i].lines, expected[i].lines) << i;
  }
  EXPECT_NE(mine[1].lines, mine[20].lines);
}

// Each half takes its own of a file, and what is wrong with it is said of the whole.
TEST_F(ArrangedTest, PartsStartFromAFileOfTheWhole) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  const std::string before = train_until(chain("before", {"seed=7"}), 4).checkpoint;
  const std::string file = folder_ + "/weights.safetensors", other = folder_ + "/other.safetensors";
  all().barrier();
  if (first()) {
    export_model(before, file, false);
    // Without one of the second half, with another shape in the first, and with a stranger.
    const SafetensorsFile opened(file);
    std::vector<TensorView> changed;
    for (TensorView view : opened.tensors()) {
      if (view.name == "fc.bias") view.name = "stranger";
      if (view.name == "conv.bias") view.shape = {2, 2};
      changed.push_back(view);
    }
    write_safetensors(other, changed);
  }
  all().barrier();
  const auto set = [](const std::string& path) { return "model.weights=\"" + path + "\""; };
  const auto both = [&](const std::string& name, Overrides how) {
    how.insert(how.end(), {"training.epochs=0", "training.steps=3"});
    const std::string whole = train_until(chain("whole" + name, how), 0).checkpoint;
    const RunResult parts = train_until(halves("halves" + name, how), 0);
    EXPECT_LT(largest_difference(whole, parts.checkpoint), 1e-9) << name;
    return parts.checkpoint;
  };
  const std::string fresh = both("fresh", {});
  EXPECT_GT(largest_difference(fresh, both("started", {set(file)})), 1e-3);
  both("partly", {set(other), "model.partial=true"});
  const std::string said = refusal(halves("refused", {set(other)}));
  for (const char* part :
       {"2 tensors match", "missing in the file: fc.bias", "not in the model: stranger",
        "conv.bias is [2, 2] in the file, [4] in the model"}) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
  EXPECT_EQ(said, refusal(chain("refused", {set(other)})));
  // To use them without training.
  const Recipe r = halves("none", {set(file)});
  if (first()) test::spill(folder_ + "/r.toml", print_recipe(r, false));
  all().barrier();
  Trained parts(test_world(), registry_,
                find_trained(registry_, folder_ + "/r.toml", Which::newest, {}));
  Trained whole(test_world(), registry_,
                find_trained(registry_, folder_ + "/r.toml", Which::newest,
                             {"strategy=sync", "grid.partitions=1"}));
  const auto data = registry_.open_data(r.data.reader, r.data.validation);
  EXPECT_NEAR(parts.evaluate(data).at("loss"), whole.evaluate(data).at("loss"), 1e-9);
}

// Ranks that share a share must agree on who counts it: found before one of them is waited for.
TEST_F(ArrangedTest, AShareIsScoredByOneRank) {
  if (!even()) GTEST_SKIP() << "needs an even number of ranks";
  const std::string said = refusal(chain("forgetful", {"strategy=forgetful", "grid.partitions=2"}));
  const int ranks = test_world().size();
  EXPECT_NE(said.find((ranks == 2 ? " 1 share" : " 2 shares") + std::string(", and ") +
                      std::to_string(ranks) + " ranks score: Strategy::score"),
            std::string::npos)
      << said;
}

// Gives any arrangement, and makes nothing of it.
class Arranged final : public Strategy {
 public:
  using Arrange = std::function<Arrangement(const comm::Communicator& all)>;
  explicit Arranged(Arrange arrange) : arrange_(std::move(arrange)) {}
  Arrangement arrange(const comm::World& world, const Recipe&) override {
    return arrange_(world.communicator());
  }
  void build(const NetworkSource&) override { throw Failure("it was taken"); }
  torch::nn::Module& module() override { throw Failure("unused"); }
  std::int64_t parameters() override { return 0; }
  void prepare(TrainerContext&, const State*) override {}
  void run() override {}
  State state() override { return {}; }
  TensorList forward(const TensorList& inputs) override { return inputs; }

 private:
  Arrange arrange_;
};

TEST_F(ArrangedTest, AnArrangementThatLosesSamplesIsRefused) {
  using Samples = Arrangement::Samples;
  const int ranks = test_world().size();
  if (ranks < 2) GTEST_SKIP() << "needs two ranks";
  const std::string last = std::to_string(ranks - 1);
  struct Case {
    std::string said;
    Arranged::Arrange arrange;
  };
  // The last rank is where it goes wrong.
  const std::vector<Case> cases{
      {"it was taken",
       [](const auto& all) {
         return Arrangement{.samples = all.rank() == 0 ? Samples::read : Samples::handed,
                            .group = all};
       }},
      {"it was taken",
       [](const auto& all) {
         return Arrangement{.samples = all.rank() == 0 ? Samples::read : Samples::none,
                            .group = {}};
       }},
      {"shares are not the same on all ranks",
       [ranks](const auto& all) {
         return Arrangement{
             .share = all.rank(), .shares = ranks + (all.rank() == ranks - 1), .group = {}};
       }},
      {"share " + std::to_string(ranks) + " of " + std::to_string(ranks),
       [ranks](const auto& all) {
         return Arrangement{.share = all.rank() + 1, .shares = ranks, .group = {}};
       }},
      {"share 0 has 2 readers: ranks 0, 1",
       [](const auto& all) {
         return Arrangement{.samples = all.rank() < 2 ? Samples::read : Samples::none, .group = {}};
       }},
      {"share " + std::to_string(ranks) + " has no reader",
       [ranks](const auto& all) {
         return Arrangement{.share = all.rank(), .shares = ranks + 1, .group = {}};
       }},
      {"rank 1 is to have the run folder",
       [ranks](const auto& all) {
         return Arrangement{.share = all.rank(), .shares = ranks, .group = {}, .owner = 1};
       }},
      {"rank " + last + " is handed samples, but is in no group",
       [ranks](const auto& all) {
         return Arrangement{.samples = all.rank() == 0 ? Samples::read : Samples::handed,
                            .group = all.rank() == ranks - 1 ? comm::Communicator() : all};
       }},
      {"rank 0 is handed samples, but is the first of its group",
       [ranks](const auto& all) {
         return Arrangement{.samples = all.rank() == ranks - 1 ? Samples::read : Samples::handed,
                            .group = all};
       }},
      {"rank 1 reads samples, but is not the first of its group",
       [ranks](const auto& all) {
         return Arrangement{.share = all.rank(), .shares = ranks, .group = all};
       }},
      {"rank " + last + " needs no samples, but is in a group",
       [ranks](const auto& all) {
         return Arrangement{.samples = all.rank() == 0          ? Samples::read
                                       : all.rank() < ranks - 1 ? Samples::handed
                                                                : Samples::none,
                            .group = all};
       }},
      {"rank 1 of a group of " + std::to_string(ranks) + " is missing",
       [](const auto& all) {
         return Arrangement{.samples = all.rank() == 1   ? Samples::none
                                       : all.rank() == 0 ? Samples::read
                                                         : Samples::handed,
                            .group = all.rank() == 1 ? comm::Communicator() : all};
       }},
      {"rank 2 works on share 0, but is handed samples of share 1",
       [ranks](const auto& all) {
         // Two readers, of two shares.
         const bool first = all.rank() == 0;
         const comm::Communicator group = all.split(first ? 0 : 1);
         return Arrangement{.share = all.rank() == 1 ? 1 : 0,
                            .shares = 2,
                            .samples = all.rank() < 2 ? Samples::read : Samples::handed,
                            .group = first ? comm::Communicator() : group};
       }},
  };
  const Recipe plain = recipe("plain");
  train(plain, 1);
  all().barrier();
  int number = 0;
  for (const Case& one : cases) {
    // The last case takes three ranks.
    if (one.said.find("handed samples of share 1") != std::string::npos && ranks < 3) continue;
    Registry registry;
    testing_data::add_small_world(registry);
    registry.add_strategy("arranged", [&one] { return std::make_unique<Arranged>(one.arrange); },
                          {});
    const std::string name = "arranged" + std::to_string(number++);
    const Recipe r =
        parse_recipe({kRecipe, "test.toml", "/"},
                     {"strategy=arranged", "output.folder=\"" + folder_ + "/" + name + "\""},
                     registry.vocabulary());
    TrainerOptions options;
    options.progress = false;
    const std::string training =
        test::message_of<std::exception>([&] { Trainer(test_world(), registry, r, options); });
    EXPECT_NE(training.find(one.said), std::string::npos) << one.said << "; " << training;
    const TrainedSource source =
        find_trained(registry, plain.output.folder, Which::newest, {"strategy=arranged"});
    const std::string use =
        test::message_of<std::exception>([&] { Trained(test_world(), registry, source); });
    EXPECT_NE(use.find(one.said), std::string::npos) << one.said << "; " << use;
    all().barrier();
  }
}

TEST_F(ArrangedTest, AGridThatDoesNotFitIsSaid) {
  const int ranks = test_world().size();
  const std::string said = refusal(halves("grid", {"grid.replicas=5"}));
  EXPECT_NE(said.find("the grid of 5 x 2 (replicas x partitions)"), std::string::npos) << said;
  EXPECT_NE(said.find("these would: " + std::to_string(ranks) + " x 1"), std::string::npos) << said;
  const std::string both = test::message_of<UsageError>([&] {
    chain("mistakes", {"strategy=halves", "grid.partitions=5", "optimizer.lr=-1"});
  });
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
