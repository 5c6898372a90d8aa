// The noise of gradients that training.noise_every measures, against gradients of one process.
#include "convoy/data/loader.h"
#include "convoy/train/evaluate.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {
namespace {

using Gradients = std::vector<torch::Tensor>;

double square_of(const Gradients& gradients) {
  double sum = 0;
  for (const torch::Tensor& gradient : gradients) sum += gradient.square().sum().item<double>();
  return sum;
}

struct Expected {
  double part = 0, batch = 0, part_square = 0, batch_square = 0;
  int parts = 0;  // first ones of several
};

// Every gradient of every micro-batch, one after the other; the optimizer is SGD.
class Plain {
 public:
  Plain(const Registry& registry, const Recipe& r)
      : recipe_(r), compute_(r), net_(3, false, 0), task_(registry.make_task(r)) {
    torch::manual_seed(static_cast<std::uint64_t>(r.seed));
    net_ = testing_data::Small(3, false, 0);
    net_.to(torch::kDouble);
    const auto data = registry.open_data(r.data.reader, r.data.train);
    task_->look(*data, nullptr);
    for (int rank = 0; rank < test_world().size(); ++rank) {
      data::LoaderOptions options;
      options.batch = static_cast<std::size_t>(r.training.batch);
      options.seed = static_cast<std::uint64_t>(r.seed);
      options.rank = rank;
      options.world = test_world().size();
      options.layout = compute_.layout();
      loaders_.push_back(std::make_unique<data::Loader>(data, training_transform(r.data), options));
    }
  }

  // The next update.
  Expected update() {
    Expected expected;
    Gradients whole;
    double inverses = 0;
    for (auto& loader : loaders_) {
      const data::Batch* share = loader->next();
      if (share == nullptr) share = loader->next();  // the next epoch
      const int parts =
          std::min(static_cast<int>(share->size()), static_cast<int>(recipe_.training.accumulate));
      for (int part = 0; part < parts; ++part) {
        const TaskBatch rows =
            task_->tensors(*share, data::even_share({0, share->size()}, part, parts), compute_);
        const Gradients own = torch::autograd::grad(
            {task_->loss(net_.run(task_->inputs(rows)), rows)}, net_.parameters());
        expected.batch += rows.weight;
        if (part == 0 && parts > 1) {
          ++expected.parts;
          inverses += 1 / rows.weight;
          expected.part_square += square_of(own);
        }
        for (std::size_t i = 0; i < own.size(); ++i) {
          if (i == whole.size()) whole.push_back(torch::zeros_like(own[i]));
          whole[i] += own[i] * rows.weight;
        }
      }
    }
    for (torch::Tensor& gradient : whole) gradient /= expected.batch;
    expected.batch_square = square_of(whole);
    expected.part = expected.parts / inverses;
    expected.part_square /= expected.parts;
    const torch::NoGradGuard no_grad;
    const auto parameters = net_.parameters();
    for (std::size_t i = 0; i < whole.size(); ++i)
      parameters[i].sub_(whole[i], recipe_.optimizer.lr);
    return expected;
  }

 private:
  const Recipe& recipe_;
  Compute compute_;
  testing_data::Small net_;
  std::unique_ptr<Task> task_;
  std::vector<std::unique_ptr<data::Loader>> loaders_;
};

class GradientNoiseTest : public TrainerTest {
 protected:
  // Shares that are not the same, nor are their micro-batches; the last batch of an epoch is one
  // sample.
  Recipe noisy(const std::string& name, Overrides more = {}) const {
    Overrides all{"training.batch=10",      "training.accumulate=2",    "training.epochs=2",
                  "optimizer.momentum=0",   "optimizer.lr=0.2",         "schedule.name=constant",
                  "training.noise_every=1", "evaluation.every_epochs=0"};
    all.insert(all.end(), more.begin(), more.end());
    return recipe(name, all);
  }
};

void expect_close(const nlohmann::json& row, const char* key, double wanted) {
  const double got = row.at(key).get<double>();
  EXPECT_LT(std::fabs(got - wanted), 1e-9 * std::max(std::fabs(wanted), 1e-3))
      << key << " of step " << row["step"] << ": " << got << ", not " << wanted;
}

TEST_F(GradientNoiseTest, IsThatOfPlainGradients) {
  for (const std::string accumulate : {"2", "3"}) {
    SCOPED_TRACE(accumulate);
    const Recipe r = noisy("noise" + accumulate, {"training.accumulate=" + accumulate});
    EXPECT_EQ(train(r).steps, 14);
    Plain plain(registry_, r);
    if (!first()) continue;
    const auto rows = this->rows(r, "noise");
    auto row = rows.begin();
    for (int step = 1; step <= 14; ++step) {
      const Expected wanted = plain.update();
      if (wanted.parts == 0) continue;
      ASSERT_NE(row, rows.end());
      ASSERT_EQ(row->at("step"), step);
      expect_close(*row, "part", wanted.part);
      expect_close(*row, "batch", wanted.batch);
      expect_close(*row, "part_square", wanted.part_square);
      expect_close(*row, "batch_square", wanted.batch_square);
      // McCandlish et al. 2018, appendix A.1.
      const double small = wanted.part, big = wanted.batch;
      expect_close(*row, "gradient_square",
                   (big * wanted.batch_square - small * wanted.part_square) / (big - small));
      expect_close(*row, "gradient_variance",
                   (wanted.part_square - wanted.batch_square) / (1 / small - 1 / big));
      ++row;
    }
    EXPECT_EQ(row, rows.end());
    EXPECT_EQ(rows.size(), 12u);  // but for the last batch of either epoch
  }
}

// It is looked at, and nothing else changes.
TEST_F(GradientNoiseTest, ChangesNothingThatIsLearned) {
  const Overrides clipped{"training.clip_norm=0.1"};
  const Recipe every = noisy("every", clipped);
  const RunResult one = train(every);
  Overrides third = clipped, never = clipped;
  third.insert(third.end(), {"training.noise_every=3", "output.tensorboard=true"});
  never.push_back("training.noise_every=0");
  const Recipe some = noisy("some", third), none = noisy("none", never);
  const RunResult three = train(some), off = train(none);
  if (!first()) return;
  EXPECT_TRUE(same_tensors(one.checkpoint, off.checkpoint));
  EXPECT_TRUE(same_tensors(three.checkpoint, off.checkpoint));
  EXPECT_TRUE(rows(none, "noise").empty());
  const auto all = rows(every, "noise"), few = rows(some, "noise");
  ASSERT_EQ(few.size(), 4u);
  for (const auto& row : few) {
    const int step = row["step"];
    EXPECT_EQ(step % 3, 0);
    // Clipping comes after; the 7th update has no row.
    const auto& same = all[static_cast<std::size_t>(step - (step > 7 ? 2 : 1))];
    for (const char* key : {"step", "part_square", "batch_square", "gradient_variance"})
      EXPECT_EQ(row[key], same[key]) << key;
  }
  std::string board;
  for (const auto& entry : std::filesystem::directory_iterator(some.output.folder + "/tensorboard"))
    board += read_text_file(entry.path().string());
  EXPECT_NE(board.find("noise/gradient_variance"), std::string::npos);
}

// Batches of a sample for each rank can't be cut.
TEST_F(GradientNoiseTest, SaysWhereThereIsNone) {
  const auto said = [this](const Recipe& r) {
    testing::internal::CaptureStderr();
    train(r);
    all().barrier();
    std::string text;
    for (const std::string& one : all().gather_text(testing::internal::GetCapturedStderr()))
      text += one;
    return text;
  };
  const std::string whole =
      "training.noise_every: update 1 says nothing of the gradient's noise, since no rank's share "
      "of its batch can be cut into two micro-batches that count, of 1 sample at least";
  const std::string batch = std::to_string(test_world().size());
  // A batch of one is refused a second micro-batch by the recipe.
  if (test_world().size() > 1) {
    const Recipe r = noisy("uncut", {"training.batch=" + batch, "training.steps=3",
                                     "training.epochs=0", "training.noise_every=1"});
    const std::string text = said(r);
    if (first()) {
      EXPECT_TRUE(rows(r, "noise").empty());
      const std::size_t at = text.find(whole);
      EXPECT_NE(at, std::string::npos) << text;
      EXPECT_EQ(text.find(whole, at + 1), std::string::npos) << "once";
    }
  }
  const std::string text = said(noisy("cut"));
  if (first()) EXPECT_EQ(text.find("training.noise_every"), std::string::npos) << text;
}

// Of samples that are all the same nothing scatters; of independent ones the estimates are those of
// the formula's own numbers.
TEST(GradientNoise, HasTheEstimatesOfThePaper) {
  // |G|^2 = 3, tr(Sigma) = 40: 3 + 40/4 and 3 + 40/16.
  const GradientNoise noise{.part = 4, .batch = 16, .part_square = 13, .batch_square = 5.5};
  EXPECT_NEAR(noise.gradient_square(), 3, 1e-12);
  EXPECT_NEAR(noise.variance(), 40, 1e-12);
  const GradientNoise same{.part = 4, .batch = 16, .part_square = 2, .batch_square = 2};
  EXPECT_EQ(same.variance(), 0);
  EXPECT_EQ(same.gradient_square(), 2);
}

TEST_F(GradientNoiseTest, IsRefusedWhereThereIsNothingToCompare) {
  const auto said = [&](const Overrides& overrides, const std::string& part) {
    const std::string text = test::message_of<UsageError>([&] { noisy("wrong", overrides); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  said({"training.accumulate=1"},
       "training.noise_every compares the gradient of a micro-batch with that of the batch; set "
       "training.accumulate to 2 or more");
  said({"strategy=hybrid", "training.accumulate=1"},
       "training.noise_every is for the strategy sync, not hybrid");
  said({"training.noise_every=-1"}, "training.noise_every is -1; it has to be at least 0");
}

}  // namespace
}  // namespace convoy::train
