// A run that goes on with another value of each key of its recipe.
#include "convoy/base/error.h"
#include "convoy/train/export.h"
#include "convoy/train/optimizer_rule.h"
#include "convoy/train/schedule.h"
#include "tests/train/trainer_fixture.h"
#include "train/checkpoint/resume_rules.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

struct Change {
  std::string key;
  std::vector<std::string> set;  // what the resumed run says
  std::string refused = {};      // a part of the refusal; empty: it goes on
  std::vector<std::string> base = {};
};

const std::vector<std::string> kAdam{"optimizer.name=adam", "optimizer.momentum=0"};
const std::vector<std::string> kAdagrad{"optimizer.name=adagrad", "optimizer.momentum=0"};
const std::vector<std::string> kLars{"optimizer.name=lars"};
// What these examples can't do has nothing to do with going on.
constexpr const char* kPacked = "is for packed data";
constexpr const char* kFloats = "examples of floats can be crop";
constexpr const char* kGray = "colors can be changed with 3 channels";

std::string names(const std::string& data, const std::string& second) {
  return "data." + data + ".classes=[\"dark\", \"" + second + "\", \"light\"]";
}

std::vector<Change> changes(const std::string& folder) {
  const std::string weights = "model.weights=\"" + folder + "/weights.safetensors\"";
  const std::string memory = "data.store=memory";
  return {
      {"name", {"name=other"}},
      {"strategy", {"strategy=other"}, "strategy is \"other\""},
      {"plugins", {"plugins=[\"/dev/null\"]"}},
      {"seed", {"seed=2"}, "the order of samples depends on it"},
      {"threads", {"threads=2"}},
      {"precision", {"precision=float32"}},
      {"device", {"device=cpu"}},  // cuda is not everywhere
      {"tf32", {"tf32=true"}},
      {"model.name", {"model.name=small2"}, "model.name is \"small2\""},
      {"model.classes", {"model.classes=3"}},
      {"model.classes", {"model.classes=4"}, "fc.bias is [3] in the file, [4] in the model"},
      {"model.channels_last", {"model.channels_last=false"}},
      {"model.weights", {weights}},
      {"model.partial", {weights, "model.partial=true"}},
      {"model.options.norm", {"model.options.norm=true"}, "missing in the file: bn.bias"},
      {"model.options.dropout", {"model.options.dropout=0.5"}},
      {"model.options.pooled", {"model.options.pooled=true"}, "of 1 sample"},
      {"data.reader", {"data.reader=stripes2", "data.train.size=61", "data.validation.size=40"}},
      {"data.size", {"data.size=6"}},
      {"data.size", {"data.size=5"}, "examples of several sizes need a crop"},
      {"data.channels", {"data.channels=1"}},
      {"data.channels", {"data.channels=3"}, "channels"},
      {"data.mean", {"data.mean=[0.5]"}},
      {"data.deviation", {"data.deviation=[2]"}},
      {"data.on_bad", {"data.on_bad=skip"}},
      {"data.drop_last", {"data.drop_last=true"}},
      {"data.threads", {"data.threads=2"}},
      {"data.ahead", {"data.ahead=1"}},
      {"data.pixel", {"data.pixel=bfloat16"}},
      {"data.store", {memory}, kPacked},
      {"data.groups", {memory, "data.groups=0"}, kPacked},
      {"data.shuffle_every_epochs", {memory, "data.shuffle_every_epochs=2"}, kPacked},
      {"data.shuffle_every_steps", {memory, "data.shuffle_every_steps=2"}, kPacked},
      {"data.random_batches", {memory, "data.random_batches=true"}, kPacked},
      {"data.train.size", {"data.train.size=60"}, "data.train is another data set"},
      {"data.store_memory", {memory, "data.store_memory=1MiB"}, kPacked},
      {"data.train.bad_first", {"data.train.bad_first=1"}},
      {"data.train.bad_every", {"data.train.bad_every=7", "data.on_bad=skip"}},
      {"data.train.classes", {names("train", "gray"), names("validation", "gray")}},
      {"data.train.classes",
       {names("train", "grey"), names("validation", "grey")},
       "its classes have 'grey' as number 1, in the checkpoint that is 'gray'"},
      {"data.train.path", {"data.train.path=/dev/null"}},
      {"data.validation.size", {"data.validation.size=41"}},
      {"data.validation.bad_first", {"data.validation.bad_first=1"}},
      {"data.validation.bad_every", {"data.validation.bad_every=7", "data.on_bad=skip"}},
      {"data.validation.classes", {names("validation", "gray")}},
      {"data.validation.path", {"data.validation.path=/dev/null"}},
      {"data.augment.crop", {"data.augment.crop=random_padded"}},
      {"data.augment.resize",
       {"data.augment.crop=center", "data.augment.resize=7", "data.size=6"},
       kFloats},
      {"data.augment.left",
       {"data.augment.crop=fixed", "data.augment.left=1", "data.size=6"},
       kFloats},
      {"data.augment.top",
       {"data.augment.crop=fixed", "data.augment.top=1", "data.size=6"},
       kFloats},
      {"data.augment.padding", {"data.augment.crop=random_padded", "data.augment.padding=1"}},
      {"data.augment.area",
       {"data.augment.crop=random_resized", "data.augment.area=[0.5, 1]", "data.size=6"},
       kFloats},
      {"data.augment.ratio",
       {"data.augment.crop=random_resized", "data.augment.ratio=[1, 1]", "data.size=6"},
       kFloats},
      {"data.augment.flip", {"data.augment.flip=true"}},
      {"data.augment.brightness", {"data.augment.brightness=0.1"}, kGray},
      {"data.augment.contrast", {"data.augment.contrast=0.1"}, kGray},
      {"data.augment.saturation", {"data.augment.saturation=0"}},  // for colors
      {"data.augment.lighting", {"data.augment.lighting=0"}},
      {"data.evaluate.crop", {"data.evaluate.crop=none"}},
      {"data.evaluate.resize", {"data.evaluate.resize=7", "data.size=6"}, kFloats},
      {"data.evaluate.left", {"data.evaluate.crop=fixed", "data.evaluate.left=0", "data.size=6"}},
      {"data.evaluate.top", {"data.evaluate.crop=fixed", "data.evaluate.top=0", "data.size=6"}},
      {"data.evaluate.padding", {"data.evaluate.crop=random_padded", "data.evaluate.padding=1"}},
      {"data.evaluate.area",
       {"data.evaluate.crop=random_resized", "data.evaluate.area=[0.5, 1]", "data.size=6"},
       kFloats},
      {"data.evaluate.ratio",
       {"data.evaluate.crop=random_resized", "data.evaluate.ratio=[1, 1]", "data.size=6"},
       kFloats},
      {"data.evaluate.flip", {"data.evaluate.flip=true"}},
      {"data.evaluate.brightness", {"data.evaluate.brightness=0.1"}, kGray},
      {"data.evaluate.contrast", {"data.evaluate.contrast=0.1"}, kGray},
      {"data.evaluate.saturation", {"data.evaluate.saturation=0"}},
      {"data.evaluate.lighting", {"data.evaluate.lighting=0"}},
      {"task.name", {"task.name=one_vs_all"}},
      {"task.options.label_smoothing", {"task.options.label_smoothing=0.1"}},
      {"task.options.classes", {"task.options.classes=[0, 1, 2]"}},
      {"task.options.classes", {"task.options.classes=[0, 1, 1]"}, "classes"},
      {"task.options.class_names",
       {"task.options.classes=[2, 1, 0]",
        "task.options.class_names=[\"dark\", \"gray\", \"light\"]"}},
      {"optimizer.name", kAdam, "what it has gathered is of that rule"},
      {"optimizer.lr", {"optimizer.lr=0.2"}},
      {"optimizer.momentum", {"optimizer.momentum=0.5"}},
      {"optimizer.momentum", {"optimizer.momentum=0"}, "has no use for"},
      {"optimizer.momentum", {"optimizer.momentum=0.9"}, "", {"optimizer.momentum=0"}},
      {"optimizer.dampening", {"optimizer.dampening=0.1"}},
      {"optimizer.nesterov", {"optimizer.nesterov=true"}},
      {"optimizer.weight_decay", {"optimizer.weight_decay=0.01"}},
      {"optimizer.beta1", {"optimizer.beta1=0.8"}, "", kAdam},
      {"optimizer.beta2", {"optimizer.beta2=0.9"}, "", kAdam},
      {"optimizer.eps", {"optimizer.eps=1e-6"}, "", kAdam},
      {"optimizer.amsgrad", {"optimizer.amsgrad=true"}, "", kAdam},
      {"optimizer.lr_decay", {"optimizer.lr_decay=0.1"}, "", kAdagrad},
      {"optimizer.initial_accumulator", {"optimizer.initial_accumulator=1"}, "", kAdagrad},
      {"optimizer.trust_coefficient", {"optimizer.trust_coefficient=0.01"}, "", kLars},
      {"optimizer.trust_min_dims", {"optimizer.trust_min_dims=0"}, "", kLars},
      {"optimizer.groups[0].trust_min_dims",
       {"optimizer.groups=[{max_dims=1, trust_min_dims=0}]"},
       "",
       kLars},
      {"optimizer.groups[0].parameters", {"optimizer.groups=[{parameters=[\"*bias\"]}]"}},
      {"optimizer.groups[0].max_dims", {"optimizer.groups=[{max_dims=1}]"}},
      {"optimizer.groups[0].lr_scale", {"optimizer.groups=[{max_dims=1, lr_scale=2}]"}},
      {"optimizer.groups[0].weight_decay", {"optimizer.groups=[{max_dims=1, weight_decay=1e-4}]"}},
      {"schedule.name", {"schedule.name=constant"}},
      {"schedule.unit", {"schedule.unit=steps"}},
      {"schedule.milestones", {"schedule.name=step", "schedule.milestones=[2]"}},
      {"schedule.gamma", {"schedule.name=step", "schedule.milestones=[2]", "schedule.gamma=0.5"}},
      {"schedule.end", {"schedule.end=0.1"}},
      {"schedule.power", {"schedule.name=polynomial", "schedule.power=2"}},
      {"schedule.pct_start", {"schedule.name=one_cycle", "schedule.pct_start=0.5"}},
      {"schedule.div_factor", {"schedule.name=one_cycle", "schedule.div_factor=10"}},
      {"schedule.final_div_factor", {"schedule.name=one_cycle", "schedule.final_div_factor=10"}},
      {"schedule.warmup", {"schedule.warmup=2"}},
      {"schedule.warmup_from", {"schedule.warmup=2", "schedule.warmup_from=0.5"}},
      {"training.batch", {"training.batch=9"}},
      {"training.accumulate", {"training.accumulate=2"}},
      {"training.epochs", {"training.epochs=2"}},
      {"training.steps", {"training.steps=9"}},
      {"training.clip_norm", {"training.clip_norm=1"}},
      {"training.noise_every", {"training.accumulate=2", "training.noise_every=3"}},
      {"training.target.metric", {"training.target.metric=loss", "training.target.level=0"}},
      {"training.target.level", {"training.target.metric=loss", "training.target.level=-2"}},
      {"evaluation.every_epochs", {"evaluation.every_epochs=2"}},
      {"evaluation.every_steps", {"evaluation.every_steps=2"}},
      {"evaluation.from", {"evaluation.from=training"}},
      {"evaluation.fraction", {"evaluation.fraction=0.5"}},
      {"evaluation.batch", {"evaluation.batch=7"}},
      {"evaluation.training_fraction", {"evaluation.training_fraction=0.5"}},
      {"checkpoint.every_steps", {"checkpoint.every_steps=2"}},
      {"checkpoint.every_minutes", {"checkpoint.every_minutes=1"}},
      {"checkpoint.every_epochs", {"checkpoint.every_epochs=0"}},
      {"checkpoint.keep", {"checkpoint.keep=1"}},
      {"checkpoint.keep_best", {"checkpoint.keep_best=false"}},
      {"checkpoint.best", {"checkpoint.best=loss"}},
      {"checkpoint.asynchronous", {"checkpoint.asynchronous=false"}},
      {"checkpoint.memory", {"checkpoint.memory=1MiB"}},
      {"output.folder", {"output.folder=\"" + folder + "/moved\""}},
      {"output.folder", {"output.folder=\"" + folder + "/occupied\""}, "is no checkpoint of"},
      {"output.every_steps", {"output.every_steps=3"}},
      {"output.rank_times_every_steps", {"output.rank_times_every_steps=0"}},
      {"output.tensorboard", {"output.tensorboard=true"}},
      {"output.log_samples", {"output.log_samples=true"}},
      {"grid.replicas", {"grid.replicas=1"}},
      {"grid.partitions", {"grid.partitions=1"}},
      {"sync.batch_norm", {"sync.batch_norm=synchronized"}},
      {"sync.bucket", {"sync.bucket=1KiB"}},
      {"sync.first_bucket", {"sync.first_bucket=1KiB"}},
      {"sync.allreduce", {"sync.allreduce=ring"}},
      {"sync.reproducible", {"sync.reproducible=true"}},
      {"sync.wire", {"sync.wire=bfloat16"}},
      {"sync.compute_in_buckets", {"sync.compute_in_buckets=false"}},
      {"sync.allow_unused", {"sync.allow_unused=true"}},
      {"sync.devices", {"sync.devices=2"}},
      {"sync.table", {"sync.devices=2", "sync.table=baseline"}},
      {"sync.gpus", {"sync.gpus=[]"}},  // cuda is not everywhere
  };
}

class TrainerKeysTest : public TrainerTest {
 protected:
  void SetUp() override {
    if (test_world().size() > 1) GTEST_SKIP() << "one rank is enough";
    TrainerTest::SetUp();
    registry_.add_strategy(
        "other", [this] { return registry_.make_strategy("sync"); },
        registry_.vocabulary().strategies.find("sync")->second);
  }
  void TearDown() override {}

  // The checkpoint after 8 of 18 updates, of a run with these values, copied to `folder`.
  std::string stopped(const std::vector<std::string>& base, const std::string& folder) {
    std::string name = "base";
    for (const std::string& value : base) name += "-" + value;
    const Recipe r = recipe(name, base);
    if (!fs::exists(r.output.folder)) train(r, 8);
    fs::copy(r.output.folder, folder_ + "/" + folder, fs::copy_options::recursive);
    return folder_ + "/" + folder + "/checkpoints/step-000000000008";
  }
};

TEST_F(TrainerKeysTest, EveryKeyIsTried) {
  std::set<std::string> tried;
  for (const Change& change : changes("")) tried.insert(change.key);
  const Recipe all = recipe("all", {"optimizer.groups=[{max_dims=1}]"});
  for (const RecipeChange& line : recipe_changes(print_recipe(all, false), "")) {
    EXPECT_TRUE(tried.contains(line.key)) << line.key << " is new: what if it changes?";
  }
  const auto expect_tried = [&tried](const auto& kinds, const std::string& table) {
    for (const auto& kind : kinds) {
      for (const Option& option : kind->options)
        EXPECT_TRUE(tried.contains(table + option.key)) << table << option.key << " is new";
    }
  };
  expect_tried(built_in_optimizers(), "optimizer.");
  expect_tried(built_in_schedules(), "schedule.");
}

// Scores of another figure say nothing about this one: top1 lies above 0, losses count negative.
TEST_F(TrainerKeysTest, AnotherFigureForTheBestCheckpointBeginsAnew) {
  const Overrides few{"checkpoint.keep=1"};
  const Recipe before = recipe("best", few);
  train(before, 13);  // two epochs are evaluated
  const CheckpointFolder checkpoints(before.output.folder + "/checkpoints");
  const std::string best = checkpoints.best();
  EXPECT_EQ(open_checkpoint(best).metric, "top1");
  testing::internal::CaptureStderr();
  const RunResult result =
      train(recipe("best", {"checkpoint.keep=1", "checkpoint.best=loss"}), 0, "latest");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("goes by loss now, in the checkpoint by top1: it is looked for anew"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find(best + ", the best by top1, is kept no longer"), std::string::npos) << said;
  EXPECT_EQ(checkpoints.best(), result.checkpoint);
  EXPECT_EQ(open_checkpoint(result.checkpoint).metric, "loss");
  EXPECT_EQ(open_checkpoint(result.checkpoint).score, -result.evaluation->at("loss"));
  EXPECT_EQ(checkpoints.list(), std::vector<std::string>{result.checkpoint});
  // Nothing is said, or evaluated again, where it stays the same.
  testing::internal::CaptureStderr();
  train(recipe("best", {"checkpoint.keep=1", "checkpoint.best=loss"}), 0, "latest");
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("looked for anew"), std::string::npos);
  EXPECT_EQ(rows(before, "evaluation").size(), 3u);
}

// The newest may go by another figure than the checkpoint that a run goes back to.
TEST_F(TrainerKeysTest, TheBestByTheFigureThatIsLeftIsNamed) {
  const Overrides by_loss{"checkpoint.keep=9", "checkpoint.best=loss"};
  const Recipe before = recipe("back", {"checkpoint.keep=9"});
  train(before, 7);
  train(recipe("back", by_loss), 0, "latest");
  const std::string first_end = before.output.folder + "/checkpoints/step-000000000006";
  EXPECT_NE(CheckpointFolder(before.output.folder + "/checkpoints").best(), first_end);
  testing::internal::CaptureStderr();
  train(recipe("back", by_loss), 7, first_end);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(first_end + ", the best by top1, is kept no longer"), std::string::npos)
      << said;
}

// At the end of an epoch: its evaluation stands, and its score is of another figure.
TEST_F(TrainerKeysTest, AnotherFigureLeavesEvaluationsAlone) {
  const Recipe before = recipe("rows", {"training.epochs=1"});
  train(before);
  const Recipe after = recipe("rows", {"training.epochs=1", "checkpoint.best=loss"});
  EXPECT_FALSE(train(after, 0, "latest").evaluation);
  EXPECT_EQ(rows(after, "evaluation").size(), 1u);
  const CheckpointFolder checkpoints(before.output.folder + "/checkpoints");
  EXPECT_EQ(checkpoints.best(), checkpoints.newest());
}

TEST_F(TrainerKeysTest, AreAllowedOrRefusedAsTheTableSays) {
  train(recipe("occupied"), 1);
  stopped({}, "first");
  export_model(folder_ + "/first/checkpoints/step-000000000008", folder_ + "/weights.safetensors",
               false);
  int number = 0;
  for (const Change& change : changes(folder_)) {
    SCOPED_TRACE(change.key + " " + change.set.front());
    const std::string folder = "run-" + std::to_string(number++);
    const std::string from = stopped(change.base, folder);
    std::vector<std::string> set = change.base;
    set.insert(set.end(), change.set.begin(), change.set.end());
    const Recipe now = recipe(folder, set);
    const ResumeRule rule = resume_rule_of(now, change.key).value().rule;
    if (rule == ResumeRule::fixed) EXPECT_NE(change.refused, "");
    bool for_other_data = false;
    for (const char* other : {kPacked, kFloats, kGray}) {
      for_other_data = for_other_data || change.refused == other;
    }
    if (rule == ResumeRule::free && !for_other_data) EXPECT_EQ(change.refused, "");
    try {
      const RunResult result = train(now, 0, from);
      EXPECT_EQ(change.refused, "");
      EXPECT_FALSE(result.stopped);
      EXPECT_TRUE(std::isfinite(result.loss));
      // Whatever changed, each epoch has its samples, and training its length.
      const data::Position end = open_checkpoint(result.checkpoint).position;
      if (now.training.epochs > 0) {
        EXPECT_EQ(end, (data::Position{
                           static_cast<std::uint64_t>(now.training.epochs) - 1, 0, {{0, 61}}}));
      } else {
        EXPECT_EQ(result.steps, now.training.steps);
      }
    } catch (const UsageError& error) {
      EXPECT_NE(change.refused, "") << error.what();
      EXPECT_NE(std::string(error.what()).find(change.refused), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace convoy::train
