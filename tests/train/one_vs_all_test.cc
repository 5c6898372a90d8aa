// Images with any number of labels: training, figures and predictions of the task one_vs_all.
#include <cmath>
#include <map>

#include "convoy/data/loader.h"
#include "convoy/train/evaluate.h"
#include "convoy/train/trained.h"
#include "tests/train/many_labels.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {
namespace {

constexpr const char* kMany = R"(
name = "many"
precision = "float64"
[task]
name = "one_vs_all"
[model]
name = "small"
[data]
reader = "many"
[data.train]
size = 61
[data.validation]
size = 40
[optimizer]
lr = 0.1
momentum = 0.9
[training]
batch = 12
epochs = 3
[output]
tensorboard = false
)";

class OneVsAllTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    testing_data::add_many_labels(registry_);
  }
  Recipe many(const std::string& name, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), "output.folder=\"" + folder_ + "/" + name + "\"");
    return parse_recipe({kMany, "many.toml", "/"}, overrides, registry_.vocabulary());
  }
};

// The labels of these samples, [n, 4].
torch::Tensor targets_of(std::span<const std::size_t> samples) {
  const testing_data::ManyLabels data(1);
  torch::Tensor targets =
      torch::zeros({static_cast<std::int64_t>(samples.size()), 4}, torch::kDouble);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    for (const std::int64_t label : data.labels(samples[i]))
      targets[static_cast<std::int64_t>(i)][label] = 1;
  }
  return targets;
}

torch::Tensor images_of(const data::Batch& batch) {
  return torch::from_blob(batch.bytes.data(), {static_cast<std::int64_t>(batch.size()), 1, 6, 6},
                          torch::kFloat)
      .to(torch::kDouble);
}

// Per image, summed over classes.
torch::Tensor cross_entropies(const torch::Tensor& scores, const torch::Tensor& targets) {
  const torch::Tensor p = scores.sigmoid();
  return -(targets * p.log() + (1 - targets) * (1 - p).log()).sum(1);
}

// The reference: a plain LibTorch loop over the same batches.
std::map<std::string, torch::Tensor> plain_loop(const Recipe& r) {
  torch::manual_seed(static_cast<std::uint64_t>(r.seed));
  testing_data::Small net(4, false, 0);
  net.to(torch::kDouble);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  data::LoaderOptions options;
  options.batch = static_cast<std::size_t>(r.training.batch);
  options.seed = static_cast<std::uint64_t>(r.seed);
  data::Loader loader(std::make_shared<testing_data::ManyLabels>(61), training_transform(r.data),
                      options);
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (const data::Batch* batch = loader.next()) {
      optimizer.zero_grad();
      cross_entropies(net.forward(images_of(*batch)), targets_of(batch->samples)).mean().backward();
      optimizer.step();
    }
  }
  std::map<std::string, torch::Tensor> weights;
  for (const auto& p : net.named_parameters()) weights[p.key()] = p.value().detach();
  return weights;
}

TEST_F(OneVsAllTest, TrainsAsAPlainLoopWouldOnAnyNumberOfRanks) {
  for (const std::string accumulate : {"1", "2"}) {
    const Recipe r = many("plain" + accumulate, {"training.accumulate=" + accumulate});
    const State state = state_of(train(r).checkpoint);
    for (const auto& [name, weights] : plain_loop(r)) {
      EXPECT_LT((state.model.at(name) - weights).abs().max().item<double>(), 1e-9) << name;
    }
  }
}

TEST_F(OneVsAllTest, FiguresAreThoseOfAllRanksTogether) {
  const Recipe r = many("figures");
  const RunResult result = train(r);
  testing_data::Small net(4, false, 0);
  net.to(torch::kDouble);
  const State state = state_of(result.checkpoint);
  const torch::NoGradGuard no_grad;
  for (auto& p : net.named_parameters()) p.value().copy_(state.model.at(p.key()));
  data::LoaderOptions options;
  options.batch = 40;
  options.shuffle = false;
  data::Loader loader(std::make_shared<testing_data::ManyLabels>(40), evaluation_transform(r.data),
                      options);
  const data::Batch& batch = *loader.next();
  const torch::Tensor scores = net.forward(images_of(batch)), targets = targets_of(batch.samples);
  const torch::Tensor above = scores > 0, labels = targets > 0;
  const auto count = [](const torch::Tensor& which) { return which.sum().item<double>(); };
  ASSERT_TRUE(result.evaluation);
  const Evaluation& got = *result.evaluation;
  EXPECT_NEAR(got.at("loss"), cross_entropies(scores, targets).mean().item<double>(), 1e-9);
  EXPECT_NEAR(got.at("f1"), 2 * count(above & labels) / (count(above) + count(labels)), 1e-12);
  const torch::Tensor right = labels.gather(1, scores.argmax(1, true));
  EXPECT_NEAR(got.at("top1"), count(right) / count(labels.any(1)), 1e-12);
  EXPECT_EQ(got.at("top5"), 1);  // of four classes
  // By sorting, with scores rounded as documented.
  double sum = 0;
  for (std::int64_t k = 0; k < 4; ++k) {
    const torch::Tensor rounded = (scores.select(1, k) * 8).floor();
    for (std::int64_t i = 0; i < 40; ++i) {
      if (!labels[i][k].item<bool>()) continue;
      const torch::Tensor first = rounded >= rounded[i];
      sum += count(first & labels.select(1, k)) / count(first) / count(labels.select(1, k));
    }
  }
  EXPECT_NEAR(got.at("map"), sum / 4, 1e-12);
  // The best checkpoint goes by it.
  EXPECT_EQ(open_checkpoint(result.checkpoint).score, got.at("map"));
}

// Four images of three classes, by hand.
class FiguresByHand : public OneVsAllTest {
 protected:
  std::unique_ptr<Task> task(const Overrides& overrides = {}) const {
    auto made = registry_.make_task(many("unused", overrides));
    TaskFacts facts;
    facts.numbers = {{"image.channels", 1}, {"image.height", 1}, {"image.width", 1}};
    facts.lists = {{"classes", {"a", "b", "c"}}};
    made->restore(facts);
    return made;
  }
  // Of images [begin, end).
  void measure(const Task& task, std::int64_t begin, std::int64_t end, std::span<double> sums) {
    data::Batch batch;
    batch.bytes = std::as_writable_bytes(std::span(pixels_));
    batch.samples = samples_;
    batch.shape = {1, 1, 1};
    batch.label_lists = lists_;
    const Compute compute(many("unused"));
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    task.measure({scores_.slice(0, begin, end)}, task.tensors(batch, {at(begin), at(end)}, compute),
                 sums);
  }
  std::vector<double> figures(const Task& task, std::int64_t cut = 4) {
    std::vector<double> sums(task.sums());
    measure(task, 0, cut, sums);
    measure(task, cut, 4, sums);
    return task.figures(sums);
  }

  std::vector<float> pixels_ = std::vector<float>(4);
  std::vector<std::size_t> samples_{10, 11, 12, 13};
  std::vector<std::vector<std::int64_t>> lists_{{0}, {}, {0, 1}, {1}};
  torch::Tensor scores_ = torch::tensor(
      {{2., 3., -1.}, {1., -3., -1.}, {-1., 1., -1.}, {-2., 0.5, -1.}}, torch::kDouble);
};

TEST_F(FiguresByHand, AreRight) {
  const auto t = task();
  const std::vector<double> got = figures(*t);
  ASSERT_EQ(got.size(), t->metrics().size());
  // a: right at ranks 1 and 3, b: at 2 and 3; nobody has c.
  EXPECT_NEAR(got[0], ((1 + 2.0 / 3) / 2 + (1.0 / 2 + 2.0 / 3) / 2) / 2, 1e-12);
  EXPECT_NEAR(got[1], 2 * 3.0 / (5 + 4), 1e-12);  // above 0.5: five, of which three are labels
  EXPECT_NEAR(got[2], 2.0 / 3, 1e-12);            // of the three images that have labels
  EXPECT_EQ(got[3], 1);
  double loss = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::int64_t k = 0; k < 3; ++k) {
      const double s = scores_[static_cast<std::int64_t>(i)][k].item<double>();
      const bool label = std::count(lists_[i].begin(), lists_[i].end(), k) > 0;
      loss += std::log1p(std::exp(label ? -s : s));
    }
  }
  EXPECT_NEAR(got[4], loss / 4, 1e-12);
  for (std::int64_t cut = 0; cut < 4; ++cut) {
    const std::vector<double> parts = figures(*t, cut);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(parts[i], got[i], 1e-12);
  }
}

TEST_F(FiguresByHand, TheThresholdIsTheRecipes) {
  // A probability of 0.8 is a score of 1.386.
  EXPECT_NEAR(figures(*task({"task.options.threshold=0.8"}))[1], 2 * 1.0 / (2 + 4), 1e-12);
  for (const char* wrong : {"0", "1", "-0.5"}) {
    const std::string said = test::message_of<UsageError>(
        [&] { many("wrong", {std::string("task.options.threshold=") + wrong}); });
    EXPECT_NE(said.find("above 0 and below 1"), std::string::npos) << said;
  }
}

// However good the rest: nothing of it may become the best, or reach a target.
TEST_F(FiguresByHand, OfANetworkThatGivesNoNumbersTheyAreNone) {
  scores_[3][2] = std::nan("");
  for (const double figure : figures(*task())) EXPECT_TRUE(std::isnan(figure));
}

TEST_F(FiguresByHand, OfNoLabelsTheyAreFiniteAndOfNoSamplesUnknown) {
  lists_ = {{}, {}, {}, {}};
  for (const double figure : figures(*task())) EXPECT_TRUE(std::isfinite(figure));
  const auto t = task();
  for (const double figure : t->figures(std::vector<double>(t->sums())))
    EXPECT_TRUE(std::isnan(figure));
}

TEST_F(FiguresByHand, ALabelThatIsNoClassIsRefused) {
  for (const std::int64_t label : {3, -1}) {
    lists_[2] = {0, label};
    const std::string said = test::message_of<UsageError>([&] { figures(*task()); });
    EXPECT_NE(
        said.find("sample 12 has the label " + std::to_string(label) + "; there are 3 classes"),
        std::string::npos)
        << said;
  }
}

TEST_F(OneVsAllTest, StoppedAndResumedItGoesOnAsIfItHadNot) {
  const Recipe whole = many("whole"), parts = many("parts", {"output.log_samples=true"});
  const std::string expected = train(whole).checkpoint;
  EXPECT_TRUE(train(parts, 4).stopped);
  const RunResult end = train(parts, 0, "latest");
  EXPECT_FALSE(end.stopped);
  EXPECT_EQ(largest_difference(expected, end.checkpoint), 0);
  all().barrier();
  if (first()) expect_each_once(parts, 3 * 61);
  all().barrier();
}

TEST_F(OneVsAllTest, PredictionsAreTheClassesAboveTheThreshold) {
  const Recipe r = many("predict");
  const RunResult result = train(r);
  all().barrier();
  const std::string picture = test::source_folder() + "/tests/data/fixtures/gray.png";
  const auto answer = [&](const std::string& threshold) {
    const TrainedSource source = find_trained(registry_, r.output.folder, Which::newest,
                                              {"task.options.threshold=" + threshold});
    return Trained(test_world(), registry_, source).predict({picture}, 1).at(0);
  };
  const Answer all_classes = answer("0.000000001");
  EXPECT_EQ(all_classes.error, "");
  EXPECT_EQ(all_classes.lines.size(), 4u);  // however many are asked for
  const auto rows = nlohmann::json::parse(all_classes.json)["classes"];
  ASSERT_EQ(rows.size(), 4u);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_LE(rows[i]["probability"], rows[i - 1]["probability"]);
  // Between the second and the third.
  const double second = rows[1]["probability"], third = rows[2]["probability"];
  if (second > third) {
    EXPECT_EQ(answer(std::to_string((second + third) / 2)).lines.size(), 2u);
  }
  const Answer none = answer("0.999999999");
  ASSERT_EQ(none.lines.size(), 1u);
  EXPECT_NE(none.lines[0].find("(not above the threshold)"), std::string::npos) << none.lines[0];
  EXPECT_EQ(nlohmann::json::parse(none.json)["classes"][0], rows[0]);
  EXPECT_EQ(nlohmann::json::parse(none.json)["above_threshold"], false);
  EXPECT_FALSE(nlohmann::json::parse(all_classes.json).contains("above_threshold"));
}

TEST_F(OneVsAllTest, ATaskWithOneLabelRefusesLists) {
  const std::string said = refusal(many("softmax", {"task.name=classification"}));
  EXPECT_NE(
      said.find("data.train has any number of labels for each sample; the task classification "
                "takes one each: set task.name = \"one_vs_all\""),
      std::string::npos)
      << said;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/softmax/metrics.jsonl"));
  // And what was trained on one label each, asked about data with lists.
  const Recipe one = recipe("one");
  train(one);
  all().barrier();
  Trained trained(test_world(), registry_,
                  find_trained(registry_, one.output.folder, Which::newest, {}));
  if (all().size() > 1) return;
  EXPECT_THROW(trained.evaluate(std::make_shared<testing_data::ManyLabels>(5)), UsageError);
}

}  // namespace
}  // namespace convoy::train
