// What strategies may say of an arrangement, and how samples reach the ranks of one.
#include "convoy/data/loader.h"
#include "convoy/parallel/grid.h"
#include "convoy/train/trained.h"
#include "tests/train/many_labels.h"
#include "tests/train/trainer_fixture.h"
#include "tests/train/words.h"
#include "train/samples/handed_source.h"

namespace convoy::train {
namespace {

class ArrangementTest : public TrainerTest {};

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

TEST_F(ArrangementTest, AnArrangementThatLosesSamplesIsRefused) {
  using Samples = Arrangement::Samples;
  const int ranks = test_world().size();
  if (ranks < 2) GTEST_SKIP() << "needs two ranks";
  const std::string last = std::to_string(ranks - 1);
  struct Case {
    std::string said;
    Arranged::Arrange arrange;
    int ranks = 2;  // that it takes
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
      {"rank 1 of a group of " + std::to_string(ranks) +
           ", whose first is rank 0 of all, is missing",
       [](const auto& all) {
         return Arrangement{.samples = all.rank() == 1   ? Samples::none
                                       : all.rank() == 0 ? Samples::read
                                                         : Samples::handed,
                            .group = all.rank() == 1 ? comm::Communicator() : all};
       }},
      // Rank 0 of one pair and rank 1 of the other: neither is whole.
      {"rank 1 of a group of 2, whose first is rank 0 of all, is missing",
       [](const auto& all) {
         const comm::Communicator pair = all.split(all.rank() / 2);
         const int rank = all.rank();
         return Arrangement{.share = rank / 2,
                            .shares = 2,
                            .samples = rank == 1   ? Samples::none
                                       : rank == 3 ? Samples::handed
                                                   : Samples::read,
                            .group = rank == 0 || rank == 3 ? pair : comm::Communicator()};
       },
       4},
      {"rank 2 works on share 0, but is handed samples of share 1",
       [](const auto& all) {
         // Two readers, of two shares.
         const bool first = all.rank() == 0;
         const comm::Communicator group = all.split(first ? 0 : 1);
         return Arrangement{.share = all.rank() == 1 ? 1 : 0,
                            .shares = 2,
                            .samples = all.rank() < 2 ? Samples::read : Samples::handed,
                            .group = first ? comm::Communicator() : group};
       },
       3},
  };
  const Recipe plain = recipe("plain");
  train(plain, 1);
  all().barrier();
  int number = 0;
  for (const Case& one : cases) {
    if (ranks < one.ranks || (one.ranks == 4 && ranks != 4)) continue;
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

// Records and images, empty batches and the ends of epochs: what others get is what rank 0 reads.
TEST_F(ArrangementTest, SamplesAreHandedOnAsTheyAre) {
  const auto words = std::make_shared<testing_data::Words>(50);
  const auto images = std::make_shared<testing_data::Stripes>(50, testing_data::Stripes::Bad{3, 9});
  const auto lists =
      std::make_shared<testing_data::ManyLabels>(50, testing_data::Stripes::Bad{3, 9});
  for (const std::shared_ptr<const data::Dataset>& data :
       std::vector<std::shared_ptr<const data::Dataset>>{words, images, lists}) {
    const bool raw = data == words;
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
      EXPECT_EQ(got->label_lists.size(), data == lists ? got->size() : 0);
      for (std::size_t i = 0; i < got->label_lists.size(); ++i)
        EXPECT_EQ(got->label_lists[i], data->labels(got->samples[i]));
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
  const std::string said = test::message_of<UsageError>([] { parallel::GridShape::of(0, 2, 1); });
  EXPECT_EQ(
      said,
      "the grid of 2 partitions per replica doesn't have 1 place for 1 rank: it is for 2 ranks "
      "or a multiple of them (-n 2); these would: 1 x 1 (replicas x partitions)");
  EXPECT_THROW(parallel::GridShape::of(all.size() + 1, 1, all.size()), UsageError);
  // A strategy that divides nothing is not told of grids that it can't have.
  EXPECT_EQ(
      test::message_of<UsageError>([] { parallel::GridShape::of(3, 1, 4, false); }),
      "the grid of 3 x 1 (replicas x partitions) doesn't have 4 places for as many ranks: it is "
      "for 3 ranks (-n 3); these would: 4 x 1");
}

}  // namespace
}  // namespace convoy::train
