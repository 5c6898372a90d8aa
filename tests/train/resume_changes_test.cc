// Runs that go on with one value changed, drawn at random, against a plain loop that goes on with
// it in memory: a value counts from there on, or is refused by name, and never does anything else.
#include <cmath>
#include <functional>
#include <random>

#include "convoy/base/error.h"
#include "convoy/data/epoch_order.h"
#include "convoy/train/schedule.h"
#include "tests/base/effort.h"
#include "tests/train/trainer_fixture.h"
#include "train/due.h"

namespace convoy::train {
namespace {

// Updates before the change: in the middle of the second epoch.
constexpr int kBefore = 8;
constexpr std::size_t kSamples = 61;

class Draws {
 public:
  explicit Draws(unsigned seed) : generator_(seed) {}
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(generator_()) % (most - least + 1);
  }
  // With three digits, as it is written into a recipe.
  std::string real(double least, double most) {
    const std::int64_t part = number(0, 1000);
    return std::to_string(least + (most - least) * static_cast<double>(part) / 1000);
  }
  std::string whole(std::int64_t least, std::int64_t most) {
    return std::to_string(number(least, most));
  }

 private:
  std::mt19937 generator_;
};

using Words = std::vector<std::string>;

struct Kind {
  std::string key;
  std::function<Words(Draws&)> value;
  std::string refused = {};  // a part of the message; empty: the run goes on
  Words base = {};           // of the run before, too
};

Kind said(const std::string& assignment, const std::string& refused = "") {
  return {assignment.substr(0, assignment.find('=')),
          [assignment](Draws&) { return Words{assignment}; }, refused};
}
Kind real(const std::string& key, double least, double most, const Words& with = {},
          const Words& base = {}) {
  return {key,
          [=](Draws& draws) {
            Words all = with;
            all.push_back(key + "=" + draws.real(least, most));
            return all;
          },
          "", base};
}
Kind whole(const std::string& key, std::int64_t least, std::int64_t most, const Words& with = {}) {
  return {key, [=](Draws& draws) {
            Words all = with;
            all.push_back(key + "=" + draws.whole(least, most));
            return all;
          }};
}
Kind group(const std::string& key, double least, double most) {
  return {"optimizer.groups[0]." + key, [=](Draws& draws) {
            return Words{"optimizer.groups=[{max_dims=1, " + key + "=" + draws.real(least, most) +
                         "}]"};
          }};
}

std::vector<Kind> kinds() {
  const Words adam{"optimizer.name=adam", "optimizer.momentum=0", "optimizer.lr=0.01"};
  const Words step{"schedule.name=step"};
  return {
      // What changes the weights.
      real("optimizer.lr", 0.01, 0.2),
      real("optimizer.momentum", 0.1, 0.95),
      real("optimizer.dampening", 0.01, 0.5),
      said("optimizer.nesterov=true"),
      real("optimizer.weight_decay", 0.001, 0.05),
      group("lr_scale", 0.1, 2),
      group("weight_decay", 0.001, 0.05),
      real("optimizer.beta1", 0.5, 0.95, {}, adam),
      real("optimizer.beta2", 0.8, 0.9999, {}, adam),
      real("optimizer.eps", 0.001, 0.01, {}, adam),
      said("schedule.name=constant"),
      real("schedule.end", 0.05, 1),
      real("schedule.warmup", 0.5, 2.9),
      real("schedule.warmup_from", 0.1, 0.9, {"schedule.warmup=2.5"}),
      whole("schedule.warmup", 9, 17, {"schedule.unit=steps"}),
      real("schedule.gamma", 0.1, 0.9, {"schedule.name=step", "schedule.milestones=[1, 2]"}),
      {"schedule.milestones",
       [step](Draws& draws) {
         return Words{"schedule.name=step", "schedule.milestones=[" + draws.real(0.5, 2.9) + "]"};
       }},
      whole("training.batch", 5, 20),
      whole("training.epochs", 2, 4),
      whole("training.steps", 9, 25),
      real("training.clip_norm", 0.05, 1),
      {"data.mean", [](Draws& draws) { return Words{"data.mean=[" + draws.real(0.1, 1) + "]"}; }},
      {"data.deviation",
       [](Draws& draws) { return Words{"data.deviation=[" + draws.real(0.5, 2) + "]"}; }},
      said("data.drop_last=true"),
      real("task.options.label_smoothing", 0.01, 0.3),
      // What leaves them alone.
      said("name=other"),
      whole("threads", 1, 2),
      said("device=cpu"),
      whole("training.accumulate", 2, 3),
      said("model.channels_last=false"),
      whole("data.threads", 1, 3),
      whole("data.ahead", 1, 4),
      said("data.on_bad=skip"),
      whole("data.validation.size", 30, 50),
      whole("evaluation.every_epochs", 0, 3),
      whole("evaluation.every_steps", 1, 5),
      said("evaluation.from=training"),
      real("evaluation.fraction", 0.2, 0.9),
      whole("evaluation.batch", 5, 30),
      whole("checkpoint.every_steps", 1, 5),
      real("checkpoint.every_minutes", 0.001, 10),
      whole("checkpoint.every_epochs", 0, 2),
      whole("checkpoint.keep", 1, 4),
      said("checkpoint.keep_best=false"),
      said("checkpoint.best=loss"),
      said("checkpoint.asynchronous=false"),
      said("checkpoint.memory=1MiB"),
      whole("output.every_steps", 2, 5),
      whole("output.rank_times_every_steps", 0, 4),
      said("output.tensorboard=true"),
      said("output.log_samples=true"),
      whole("grid.partitions", 1, 1),
      said("sync.bucket=1KiB"),
      said("sync.first_bucket=1KiB"),
      said("sync.allreduce=ring"),
      said("sync.reproducible=true"),
      said("sync.compute_in_buckets=false"),
      said("sync.allow_unused=true"),
      // What can't change.
      whole("seed", 2, 99),
      said("model.name=small2", "model.name is \"small2\""),
      said("model.classes=4", "fc.bias is [3] in the file, [4] in the model"),
      {"optimizer.name",
       [](Draws&) {
         return Words{"optimizer.name=adagrad", "optimizer.momentum=0"};
       },
       "what it has gathered is of that rule"},
      said("optimizer.momentum=0", "has no use for, e.g. momentum_buffer"),
      said("data.train.size=60", "data.train is another data set"),
  };
}

// One process with LibTorch's own optimizers, which goes on in memory.
class PlainRun {
 public:
  explicit PlainRun(const Recipe& r) : net_((torch::manual_seed(1), 3), false, 0) {
    net_.to(torch::kDouble);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const bool few : {false, true}) {
      std::vector<torch::Tensor> own;
      for (const torch::Tensor& parameter : net_.parameters())
        if ((parameter.dim() <= 1) == few) own.push_back(parameter);
      groups.emplace_back(own);
    }
    if (r.optimizer.name == "adam")
      optimizer_ = std::make_unique<torch::optim::Adam>(groups, torch::optim::AdamOptions());
    else
      optimizer_ = std::make_unique<torch::optim::SGD>(groups, torch::optim::SGDOptions(0.1));
  }

  // To the end, or to the end of so many updates.
  void run(const Recipe& r, int until = 0) {
    const auto batch = static_cast<std::size_t>(r.training.batch);
    const std::size_t batches = r.data.drop_last ? kSamples / batch : (kSamples - 1) / batch + 1;
    const Schedule schedule(r.schedule, r.optimizer.lr, r.training, static_cast<double>(batches));
    while (until > 0 ? step_ < until : !is_done(r.training, moment(r))) {
      if (moment(r).epoch_over) ++epoch_, consumed_ = 0;
      update(r, schedule.at(moment(r)));
    }
  }
  std::int64_t steps() const { return step_; }
  State state() const {
    State state;
    describe_module(net_, state);
    return state;
  }

 private:
  Moment moment(const Recipe& r) const {
    Moment now;
    now.epoch = epoch_;
    now.consumed = consumed_;
    now.samples = kSamples;
    const std::size_t left = kSamples - consumed_;
    const auto batch = static_cast<std::size_t>(r.training.batch);
    now.epoch_over = left == 0 || (r.data.drop_last && left < batch);
    now.step = step_;
    return now;
  }

  void set_options(const OptimizerRecipe& r, double rate) {
    for (std::size_t g = 0; g < 2; ++g) {
      double lr = rate, decay = r.weight_decay;
      if (g == 1 && !r.groups.empty()) {
        lr *= r.groups[0].lr_scale;
        if (r.groups[0].weight_decay >= 0) decay = r.groups[0].weight_decay;
      }
      torch::optim::OptimizerOptions& all = optimizer_->param_groups()[g].options();
      const Options& own = r.options;
      if (r.name == "adam") {
        auto& options = static_cast<torch::optim::AdamOptions&>(all);
        options.lr(lr).weight_decay(decay).betas({own.number("beta1"), own.number("beta2")});
        options.eps(own.number("eps") > 0 ? own.number("eps") : 1e-8);
      } else {
        auto& options = static_cast<torch::optim::SGDOptions&>(all);
        options.lr(lr).weight_decay(decay).momentum(own.number("momentum"));
        options.dampening(own.number("dampening")).nesterov(own.flag("nesterov"));
      }
    }
  }

  void update(const Recipe& r, double rate) {
    const data::EpochOrder order(kSamples, 1, epoch_);
    const std::size_t end =
        std::min(consumed_ + static_cast<std::size_t>(r.training.batch), kSamples);
    std::vector<torch::Tensor> images;
    std::vector<std::int64_t> labels;
    for (const std::size_t i : order.samples({consumed_, end})) {
      std::vector<std::byte> scratch;
      const data::Record record = data_.read(i, scratch);
      torch::Tensor image = torch::empty({1, 6, 6});
      std::memcpy(image.mutable_data_ptr(), record.bytes.data(), record.bytes.size());
      images.push_back(image.to(torch::kDouble));
      labels.push_back(record.label);
    }
    const double mean = r.data.mean.empty() ? 0 : r.data.mean[0];
    const double deviation = r.data.deviation.empty() ? 1 : r.data.deviation[0];
    set_options(r.optimizer, rate);
    optimizer_->zero_grad();
    const auto loss = torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(
        r.task.options.number("label_smoothing"));
    torch::nn::functional::cross_entropy(net_.forward((torch::stack(images) - mean) / deviation),
                                         torch::tensor(labels), loss)
        .backward();
    if (r.training.clip_norm > 0)
      torch::nn::utils::clip_grad_norm_(net_.parameters(), r.training.clip_norm);
    optimizer_->step();
    consumed_ = end;
    ++step_;
  }

  testing_data::Small net_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  const testing_data::Stripes data_{kSamples};
  std::uint64_t epoch_ = 0;
  std::size_t consumed_ = 0;
  std::int64_t step_ = 0;
};

class ResumeChangesTest : public TrainerTest {
 protected:
  // The checkpoint of a run with these values, of which the rest is changed.
  std::string checkpoint_of(const Words& base) {
    const Recipe r = recipe(base.empty() ? "base" : "base-adam", base);
    const std::string path = r.output.folder + "/checkpoints/step-000000000008";
    if (!trained_.contains(r.name + path)) train(r, kBefore);
    trained_.insert(r.name + path);
    all().barrier();
    return path;
  }

 private:
  std::set<std::string> trained_;
};

// float64: the order of sums over ranks leaves differences under 1e-12. Means and deviations are
// floats in the recipe's transforms.
TEST_F(ResumeChangesTest, CountFromThereOnOrAreRefused) {
  const std::vector<Kind> all_kinds = kinds();
  const int draws = test::all_cases() ? 200 : 24;
  Draws random(7);
  for (int i = 0; i < draws; ++i) {
    const Kind& kind =
        all_kinds[static_cast<std::size_t>(random.number(0, std::ssize(all_kinds) - 1))];
    Words changed = kind.base;
    for (const std::string& word : kind.value(random)) changed.push_back(word);
    SCOPED_TRACE(kind.key + ": " + changed.back());
    const std::string from = checkpoint_of(kind.base);
    const Recipe before = recipe("before", kind.base);
    const Recipe after = recipe("run-" + std::to_string(i), changed);
    const std::string refused = kind.key == "seed" ? "the order of samples" : kind.refused;
    if (!refused.empty()) {
      const std::string why = refusal(after, from);
      EXPECT_NE(why.find(refused), std::string::npos) << why;
      continue;
    }
    const RunResult result = train(after, 0, from);
    all().barrier();
    PlainRun plain(before);
    plain.run(before, kBefore);
    plain.run(after);
    EXPECT_EQ(result.steps, plain.steps());
    const State expected = plain.state(), got = state_of(result.checkpoint);
    const bool rounded = kind.key == "data.mean" || kind.key == "data.deviation";
    for (const auto& [name, tensor] : expected.model) {
      const double difference = (got.model.at(name) - tensor).abs().max().item<double>();
      EXPECT_LT(difference, rounded ? 1e-6 : 1e-9) << name;
    }
  }
}

}  // namespace
}  // namespace convoy::train
