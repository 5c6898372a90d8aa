// What a recipe can't mean is said before anything is opened, with all other mistakes in it: the
// key, and where it stands.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "tests/train/small_world.h"

namespace convoy::train {
namespace {

constexpr const char* kBase = R"(
name = "test"
[model]
name = "small"
[data]
reader = "stripes"
[data.validation]
size = 40
[training]
batch = 12
epochs = 3
)";

class Refusals : public testing::Test {
 protected:
  void SetUp() override { testing_data::add_small_world(registry_); }

  std::string said(const std::string& text, const std::vector<std::string>& overrides) {
    return test::message_of<UsageError>([&] {
      parse_recipe({text, "dir/test.toml", "/"}, overrides, registry_.vocabulary());
    });
  }

  Registry registry_;
};

struct Mistake {
  std::vector<std::string> set;
  std::string said;
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all{
      {{"schedule.warmup=500"},
       "schedule.warmup is 500 epochs, longer than the training of 3; schedule.unit = \"steps\" "
       "counts updates"},
      {{"schedule.warmup=31", "schedule.unit=steps", "training.steps=30"},
       "schedule.warmup is 31 steps, longer than the training of 30"},
      {{"schedule.warmup=inf"}, "schedule.warmup is inf; it has to be a finite number"},
      {{"schedule.warmup=1", "schedule.warmup_from=inf"}, "schedule.warmup_from is inf;"},
      {{"schedule.warmup_from=0.5"}, "schedule.warmup_from is for schedule.warmup, which is 0"},
      {{"schedule.name=cosine", "schedule.end=nan"}, "schedule.end is nan;"},
      {{"schedule.name=step", "schedule.milestones=[1]", "schedule.gamma=inf"},
       "schedule.gamma is inf;"},
      {{"schedule.name=step", "schedule.milestones=[1, inf]"}, "schedule.milestones is inf;"},
      {{"optimizer.lr=inf"}, "optimizer.lr is inf; it has to be a finite number"},
      {{"optimizer.lr=-inf"}, "optimizer.lr is -inf;"},
      {{"optimizer.lr=nan"}, "optimizer.lr is nan;"},
      {{"optimizer.momentum=inf"}, "optimizer.momentum is inf;"},
      {{"optimizer.dampening=inf"}, "optimizer.dampening is inf;"},
      {{"optimizer.weight_decay=inf"}, "optimizer.weight_decay is inf;"},
      {{"optimizer.name=adam", "optimizer.eps=inf"}, "optimizer.eps is inf;"},
      {{"optimizer.name=adam", "optimizer.beta2=inf"}, "optimizer.beta2 is inf;"},
      {{"optimizer.name=adagrad", "optimizer.lr_decay=inf"}, "optimizer.lr_decay is inf;"},
      {{"optimizer.name=adagrad", "optimizer.initial_accumulator=inf"},
       "optimizer.initial_accumulator is inf;"},
      {{"optimizer.groups=[{max_dims=1, lr_scale=inf}]"}, "optimizer.groups[0].lr_scale is inf;"},
      {{"optimizer.groups=[{max_dims=1, weight_decay=nan}]"},
       "optimizer.groups[0].weight_decay is nan;"},
      {{"training.clip_norm=inf"}, "training.clip_norm is inf;"},
      {{"training.target.metric=top1", "training.target.level=98.5"},
       "training.target.level is 98.5, but top1 is a fraction, from 0 to 1: 98.5% is 0.985"},
      {{"training.target.metric=top5", "training.target.level=-0.1"},
       "training.target.level is -0.1, but top5 is a fraction"},
      {{"training.target.metric=loss", "training.target.level=inf"},
       "training.target.level is inf; it has to be a finite number"},
      {{"training.target.metric=top1"},
       "training.target.metric needs training.target.level: what it has to reach"},
      {{"training.target.metric=tpo1", "training.target.level=0.9"},
       "training.target.metric is 'tpo1', but the task classification has no such metric"},
      {{"checkpoint.best=tpo1"}, "checkpoint.best is 'tpo1', but the task"},
      {{"training.batch=4294967296"}, "training.batch is 4294967296; it has to be 1 to 2147483647"},
      {{"training.batch=-1"}, "training.batch is -1; it has to be 1 to"},
      {{"training.accumulate=4294967296"},
       "training.accumulate is 4294967296; it has to be 1 to 2147483647"},
      {{"evaluation.batch=4294967296"}, "evaluation.batch is 4294967296; it has to be 0 to"},
      {{"training.epochs=9223372036854775807"},
       "training.epochs is 9223372036854775807; it has to be 0 to 1000000000"},
      {{"training.steps=9223372036854775807"}, "training.steps is 9223372036854775807; it has"},
      {{"checkpoint.keep=1000000"}, "checkpoint.keep is 1000000; it has to be 1 to 999999"},
      {{"grid.partitions=1000000000000"}, "grid.partitions is 1000000000000; it has to be 1 to"},
      {{"placement.layers=[{how=\"replicated\", parts=[nan]}]"},
       "placement.layers[0].parts is nan;"},
      {{"data.channels=3", "data.mean=[0.1, 0.2]"}, "data.mean has 2 values; data.channels is 3"},
      {{"data.channels=1", "data.deviation=[1, 1, 1]"},
       "data.deviation has 3 values; data.channels is 1"},
      {{"data.mean=[1e39]"}, "data.mean is 1e"},
      {{"data.deviation=[1e-40]"}, "data.deviation is 1e"},
      {{"data.size=8", "data.augment.crop=random_resized", "data.augment.ratio=[0.5, inf]"},
       "data.augment.ratio has to be two finite numbers, 0 < least <= largest"},
      {{"data.reader=packed", "data.train.files=[]"}, "data.train.files: is empty: tars"},
      {{"data.reader=packed", "data.train.files=[\"\"]"}, "data.train.files: is empty: tars"},
      {{"data.reader=image_folder", "data.train.path=\"\"", "data.validation.path=/"},
       "data.train.path: is empty: folder"},
      {{"data.reader=image_folder", "data.train.path=/", "data.validation.path=/",
        "data.validation.class_names=/proc/version"},
       "data.validation.class_names is for images with a table of labels, data.validation.labels"},
      {{"optimizer.groups=[{parameters=[\"*\"], max_dims=-1}]"},
       "optimizer.groups[0].max_dims is negative"},
      {{"checkpoint.every_minutes=inf"}, "checkpoint.every_minutes has to be a number from 0 on"},
      {{"strategy=downpour", "training.steps=1000000000000000", "training.batch=2147483647"},
       "training.steps is 1000000000000000; with downpour"},
      {{"model.classes=-1"}, "model.classes is -1; it has to be 0 to 2147483647"},
      {{"model.classes=4294967296"}, "model.classes is 4294967296; it has to be 0 to"},
      {{"model.name=mlp", "model.options.hidden=[0]"},
       "model.options: model 'mlp': layer fc1 has 0 units"},
      {{"model.name=mlp", "model.options.hidden=[nan]"},
       "model.options.hidden has to be positive whole numbers, at most 2147483647"},
      {{"model.name=mlp", "model.options.hidden=[4294967296]"},
       "model.options.hidden has to be positive whole numbers"},
      {{"model.name=alexnet", "model.options.dropout=nan"},
       "model.options: model 'alexnet': dropout is nan"},
      {{"model.name=alexnet", "model.options.hidden=-5"},
       "model.options: model 'alexnet': hidden is -5"},
      {{"model.name=alexnet-one-tower", "model.options.widths=[1, 2]"},
       "model.options: model 'alexnet-one-tower': widths has to be five"},
      {{"model.name=speech-dnn", "model.options.depth=4294967296"},
       "model.options.depth is 4294967296; it has to be at most 10000"},
      {{"model.name=local-image", "model.options.preset=2B"},
       "model.options: local-image has no preset '2B'"},
      {{"model.name=local-image", "model.options.maps=[4, 5]", "model.options.strides=[1]"},
       "model.options.strides has to be 2 positive whole numbers"},
      {{"sync.devices=0"}, "sync.devices is 0; it has to be 1 to 256"},
      {{"sync.devices=13"},
       "sync.devices is 13, more than the samples of a batch (training.batch is 12)"},
      {{"sync.devices=2", "sync.table=optimised"},
       "sync.table is 'optimised'; it can be optimized or baseline; did you mean optimized?"},
      {{"sync.table=baseline"}, "sync.table is baseline, which is for several devices"},
      {{"sync.devices=2", "sync.gpus=[0, 1]"}, "sync.gpus is for device = \"cuda\"; device is cpu"},
      {{"device=cuda", "sync.devices=2", "sync.gpus=[0]"}, "sync.gpus names 1 GPUs for 2 devices"},
      {{"device=cuda", "sync.devices=2", "sync.gpus=[0, 0.5]"},
       "sync.gpus has to be numbers of GPUs, from 0 on"},
      {{"strategy=downpour", "sync.devices=2"}, "sync.devices is 2; with downpour each rank"},
  };
  return all;
}

TEST_F(Refusals, AMistakeIsSaidWithItsKeyAndPlace) {
  for (const Mistake& mistake : mistakes()) {
    const std::string text = said(kBase, mistake.set);
    EXPECT_NE(("\n" + text).find("\n--set " + mistake.said), std::string::npos)
        << mistake.said << "\nin\n"
        << text;
  }
  EXPECT_EQ(said(kBase, {}), "");
  EXPECT_EQ(said(kBase, {"schedule.warmup=3"}), "");  // all of it
  EXPECT_EQ(said(kBase, {"model.name=mlp", "model.options.hidden=[]"}), "");
  // Filters that images of the network's own size have no room for; these may be larger.
  EXPECT_EQ(said(kBase, {"model.name=local-image", "model.options.filter=2001"}), "");
  EXPECT_EQ(said(kBase, {"training.target.metric=loss", "training.target.level=98.5"}), "");
}

// Each strategy that reduces gradients has keys of its own for it.
TEST_F(Refusals, BucketsAndRulesAreLookedAtForEveryStrategy) {
  for (const std::string strategy : {"sync", "hybrid", "partitioned"}) {
    for (const std::string key : {"bucket", "first_bucket"}) {
      for (const std::string value : {"8Mx", "0", "-5MiB", "nan", "5parsec"}) {
        const std::string text =
            said(kBase, {"strategy=" + strategy, strategy + "." + key + "=\"" + value + "\""});
        const std::string expected = "--set " + strategy + "." + key + " is '" + value +
                                     "'; it has to be a size above 0, as \"8MiB\" or \"512k\"";
        EXPECT_EQ(text, expected);
      }
    }
    const std::string text =
        said(kBase, {"strategy=" + strategy, strategy + ".allreduce=nonsense"});
    EXPECT_EQ(text.find("--set " + strategy + ".allreduce: "), 0u) << text;
    EXPECT_NE(text.find("nonsense"), std::string::npos) << text;
    EXPECT_EQ(said(kBase, {"strategy=" + strategy, strategy + ".allreduce=ring"}), "");
  }
  // Whichever it comes to.
  const std::string any = said(kBase, {"strategy=auto", "sync.bucket=0", "hybrid.bucket=0"});
  for (const char* part : {"sync.bucket is '0'", "hybrid.bucket is '0'"})
    EXPECT_NE(any.find(part), std::string::npos) << any;
  const std::string replicas = said(kBase, {"strategy=downpour", "sync.bucket=0"});
  EXPECT_NE(replicas.find("--set sync.bucket is '0'"), std::string::npos) << replicas;
}

TEST_F(Refusals, AllAreSaidTogetherWithTheirLines) {
  const std::string text = said(R"([model]
name = "small"
[data]
reader = "stripes"
[data.validation]
size = 40
[optimizer]
lr = inf
[[optimizer.groups]]
max_dims = 1
lr_scale = inf
[schedule]
warmup = 50
[training]
batch = 12
accumulate = 4294967296
epochs = 2
target = {metric = "top1", level = 98.5}
[sync]
bucket = "8Mx"
)",
                                {"sync.allreduce=nonsense"});
  for (const char* line :
       {"test.toml:8: optimizer.lr is inf", "test.toml:11: optimizer.groups[0].lr_scale is inf",
        "test.toml:13: schedule.warmup is 50 epochs", "test.toml:16: training.accumulate is",
        "test.toml:18: training.target.level is 98.5", "test.toml:20: sync.bucket is '8Mx'",
        "--set sync.allreduce: "}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
  }
}

// What is only used may have been trained with whatever was taken then.
TEST_F(Refusals, WhatWasTrainedMayHaveHadOtherAims) {
  for (const std::vector<std::string>& set : std::vector<std::vector<std::string>>{
           {"training.target.metric=top1", "training.target.level=98.5"}, {"schedule.warmup=50"}}) {
    EXPECT_NE(said(kBase, set), "");
    EXPECT_NO_THROW(parse_recipe({kBase, "test.toml", "/"}, set, registry_.vocabulary(),
                                 Files::may_be_missing));
  }
}

}  // namespace
}  // namespace convoy::train
