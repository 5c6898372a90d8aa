#include "convoy/train/optimizer_rule.h"
#include "convoy/train/schedule.h"
#include "convoy/train/server_job.h"
#include "train/recipe/automatic.h"
#include "train/recipe/fields.h"

namespace convoy::train {
namespace {

void describe(CropRecipe& crop, Fields& f) {
  f.field("crop", crop.crop,
          "none | random_resized (a random part) | random_padded (a shifted window) | center | "
          "fixed (left, top) | ten (corners, center, mirrored; evaluation averages over them)",
          {"none", "random_resized", "random_padded", "center", "fixed", "ten"});
  f.field("resize", crop.resize,
          "center, fixed, ten: short side before cropping, in pixels; 0: data.size");
  f.field("left", crop.left, "fixed: where the window begins, in pixels");
  f.field("top", crop.top, "fixed");
  f.field("padding", crop.padding, "random_padded: zero pixels on each side");
  f.field("area", crop.area, "random_resized: least and largest part of the image's area");
  f.field("ratio", crop.ratio, "random_resized: least and largest width / height");
  f.field("flip", crop.flip, "mirror left and right, with probability 1/2");
  f.field("brightness", crop.brightness, "times a factor from 1 - x to 1 + x; 0: as it is");
  f.field("contrast", crop.contrast, "the same");
  f.field("saturation", crop.saturation, "the same; the three come in random order");
  f.field("lighting", crop.lighting,
          "deviation of the colors' principal components (AlexNet: 0.1); 0: none");
}

void describe(DataRecipe& data, Fields& f) {
  f.field("reader", data.reader,
          "the format of the data: idx, cifar10, cifar100, image_folder, packed, speech");
  f.field("size", data.size, "height and width that the network sees; 0: as stored");
  f.field("channels", data.channels, "1 (gray) or 3 (color); 0: those of the first record");
  f.field("mean", data.mean, "of pixels in 0 .. 1, subtracted; per channel, or one for all");
  f.field("deviation", data.deviation, "what the difference is divided by");
  f.field("on_bad", data.on_bad, "a record that can't be decoded: fail, or skip it and count",
          {"fail", "skip"});
  f.field("drop_last", data.drop_last, "leave out a last batch of an epoch that is not full");
  f.field("threads", data.threads,
          "of each rank, that decode; 0: a quarter of those that compute (with cuda: as many)");
  f.field("ahead", data.ahead, "batches prepared ahead of need");
  f.field("pixel", data.pixel, "type of numbers in batches: float32, or bfloat16 (rounded)",
          {"float32", "bfloat16"});
  f.field(
      "store", data.store,
      "files (read when needed); or loaded at the start: memory (every rank has a part), host (one "
      "copy on each host, shared by its ranks); auto: host, memory or files, what fits",
      {"files", "memory", "host", "auto"});
  f.field(
      "store_memory", data.store_memory,
      "most memory that data may take on each host, as \"200GiB\"; empty: three quarters of what "
      "is free");
  f.field("groups", data.groups,
          "memory only: groups of ranks that hold all data once each; 0: as many as fit");
  f.field("shuffle_every_epochs", data.shuffle_every_epochs,
          "not files: the order changes, and with memory records change places; 0: never");
  f.field("shuffle_every_steps", data.shuffle_every_steps,
          "not files: also after so many; 0: never");
  f.field("random_batches", data.random_batches,
          "not files: every rank draws from what it holds, with replacement");
  f.options("train", data.train, data.reader, "What to train on; keys of the reader.");
  if (f.optional_table("validation", data.has_validation)) {
    f.options("validation", data.validation, data.reader, "What to evaluate on.");
  }
  if (f.begin("augment", "How training images are cropped.")) {
    describe(data.augment, f);
    f.end();
  }
  if (f.begin("evaluate", "How images are cropped in evaluation.")) {
    describe(data.evaluate, f);
    f.end();
  }
}

// What is chosen, and what else there is: "Adam (...); or sgd, sgd_velocity, a plugin's".
template <class Kind, class Chosen>
std::string doc_of_name(const Kinds<Kind>& built_in, const Chosen& chosen) {
  std::string text = chosen.kind && !chosen.kind->doc.empty() ? chosen.kind->doc + "; or " : "";
  for (const std::string& name : built_in.names()) {
    if (name != chosen.name) text += name + ", ";
  }
  return text + "a plugin's";
}

void describe(OptimizerRecipe& o, Fields& f) {
  f.field("name", o.name, doc_of_name(built_in_optimizers(), o).c_str());
  f.field("lr", o.lr, "learning rate");
  f.field("weight_decay", o.weight_decay, "L2 penalty; decoupled in adamw and lamb");
  f.own_keys(o);
  f.list_of("groups", o.groups, "Parameters with values of their own; the first group that fits.");
}

void describe(ScheduleRecipe& s, Fields& f) {
  f.field("name", s.name, doc_of_name(built_in_schedules(), s).c_str());
  f.field("unit", s.unit, "of warmup, and of milestones: epochs or steps", {"epochs", "steps"});
  f.own_keys(s);
  f.field("warmup", s.warmup, "how long the rate rises, linearly, at the start");
  f.field("warmup_from", s.warmup_from, "where it starts, as a part of lr");
}

void describe(ModelRecipe& m, Fields& f) {
  f.field("name", m.name,
          "the network: alexnet, lenet, resnet18, resnet34, resnet50, resnet101, another of "
          "`convoy models`, a plugin's");
  f.field("classes", m.classes, "scores per image; 0: as many as the data has classes");
  f.field("channels_last", m.channels_last, "layout of weights and images");
  f.field("weights", m.weights, "safetensors file with weights to start from", {},
          Fields::Path::to_start);
  f.field("partial", m.partial, "take from that file what fits, instead of all");
  f.options("options", m.options, m.name, "Keys of the model.");
}

void describe(TrainingRecipe& t, Fields& f) {
  f.field("batch", t.batch, "images per update, of all ranks together");
  f.field("accumulate", t.accumulate, "micro-batches that a rank cuts its share into");
  f.field("epochs", t.epochs, "how long: passes over the data, or");
  f.field("steps", t.steps, "updates");
  f.field("clip_norm", t.clip_norm, "largest total norm of the gradients; 0: no clipping");
  f.field("noise_every", t.noise_every,
          "updates between measurements of the gradient's noise scale, with accumulate; 0: never");
  if (f.begin("target", "What ends training, once an evaluation finds it.")) {
    f.field("metric", t.target.metric, "one of the task's, as top1 or loss; empty: no target");
    f.field("level", t.target.level, "what it has to reach");
    f.end();
  }
}

void describe(EvaluationRecipe& e, Fields& f) {
  f.field("every_epochs", e.every_epochs, "0: only at the end");
  f.field("every_steps", e.every_steps, "also after every so many updates; 0: not");
  f.field("batch", e.batch, "images at a time, of all ranks together; 0: training's");
  f.field("from", e.from, "what to evaluate on: data.validation, or data.train",
          {"validation", "training"});
  f.field("fraction", e.fraction, "of it: a random part, the same in all runs");
  f.field("training_fraction", e.training_fraction,
          "also on such a part of data.train: the figures that begin with train_; 0: not");
}

void describe(CheckpointRecipe& c, Fields& f) {
  f.field("every_steps", c.every_steps, "0: never; one is always written at the end");
  f.field("every_minutes", c.every_minutes, "0: never");
  f.field("every_epochs", c.every_epochs, "0: never");
  f.field("keep", c.keep, "the newest so many stay");
  f.field("keep_best", c.keep_best, "and the best one");
  f.field("best", c.best,
          "the metric that says which is; empty: training.target's, or the task's usual one");
  f.field("asynchronous", c.asynchronous,
          "copy what is saved, and write it while training goes on");
  f.field("memory", c.memory,
          "most memory for such copies on each host, as \"4GiB\"; a rank whose copy needs more "
          "writes while training waits; empty: half of what is free");
}

void describe(OutputRecipe& o, Fields& f) {
  f.field("folder", o.folder, "of metrics and checkpoints; empty: runs/<name>", {},
          Fields::Path::may_exist);
  f.field("every_steps", o.every_steps, "steps between rows of metrics");
  f.field("rank_times_every_steps", o.rank_times_every_steps,
          "steps between gatherings of all ranks' times by phase; 0: never");
  f.field("tensorboard", o.tensorboard, "also write event files for TensorBoard");
  f.field("log_samples", o.log_samples, "write the number of every sample used, per rank");
}

}  // namespace

void describe(ParameterGroupRecipe& group, Fields& f) {
  f.field("parameters", group.parameters, "names, with * and ?; empty: all");
  f.field("max_dims", group.max_dims, "only those of at most so many dimensions; 0: any");
  f.field("lr_scale", group.lr_scale, "multiplies lr");
  f.field("weight_decay", group.weight_decay, "instead of the optimizer's; -1: the same");
  f.field("trust_min_dims", group.trust_min_dims,
          "instead of the optimizer's; -1: the same; 0: all have a trust ratio");
}

void describe(PlacementRule& rule, Fields& f) {
  f.field("layers", rule.layers, "names, with * and ?; empty: all. The last rule that fits counts");
  f.field("how", rule.how, "replicated, or what else the strategy offers");
  f.field("parts", rule.parts, "of the partitions, relative to each other; empty: even ones");
}

void describe(Recipe& r, Fields& f) {
  f.field("name", r.name, "of the run; the recipe's file name unless given");
  f.field("strategy", r.strategy,
          "how the ranks work together; its keys are in a table of its name");
  f.field("plugins", r.plugins,
          "shared libraries with models, readers, tasks, optimizers and schedules of yours",
          Fields::Path::must_exist);
  f.field("seed", r.seed, "of weights, order of samples and augmentation");
  f.field("threads", r.threads, "of each rank; 0: its share of the machine's cores");
  f.field("precision", r.precision, "float32 | bfloat16 (autocast, float32 weights) | float64",
          {"float32", "bfloat16", "float64"});
  f.field("device", r.device,
          "cpu | cuda (each rank of a host takes one of its GPUs in turn) | cuda:N (that GPU)");
  f.field("tf32", r.tf32,
          "cuda: matrix products and convolutions in float32 may round their factors to TF32");
  const bool placed = f.word("placement", kAutomatic, r.placement.automatic,
                             "the planner chooses scheme and grid, and with strategy \"auto\" "
                             "whether layers are partitioned");
  const auto table = [&f](const char* key, auto& part, const char* doc) {
    if (!f.begin(key, doc)) return;
    describe(part, f);
    f.end();
  };
  table("model", r.model, "");
  table("data", r.data, "");
  if (f.begin("task", "What samples are, and how good a network is on them.")) {
    f.field("name", r.task.name,
            "classification (softmax), one_vs_all (a logistic per class), a plugin's");
    f.options("options", r.task.options, r.task.name, "Keys of the task.");
    f.end();
  }
  table("optimizer", r.optimizer, "");
  table("schedule", r.schedule, "The learning rate over time.");
  table("training", r.training, "");
  table("evaluation", r.evaluation, "");
  table("checkpoint", r.checkpoint, "Also written on SIGTERM, SIGINT and SIGUSR1.");
  table("output", r.output, "");
  if (f.begin("grid", "How the ranks are arranged.")) {
    f.field("replicas", r.grid.replicas, "copies of the model; 0: as many as there are ranks for");
    f.field("partitions", r.grid.partitions, "ranks that hold one copy together");
    f.end();
  }
  if (!placed && f.begin("placement", "Where layers are, for strategies that split a model.")) {
    f.list_of("layers", r.placement.layers, "Layers, and how they are placed.");
    f.end();
  }
  if (r.strategy != kAutomatic)
    f.options(r.strategy, r.strategy_options, r.strategy, "Keys of the strategy.");
  if (is_server_job(r.strategy)) {
    const char* const own = r.grid.partitions > 1 ? "partitioned" : "sync";
    f.options(own, r.candidates[own], own, "Keys of what the ranks of a replica do together.");
  }
  if (r.strategy != kAutomatic) return;
  for (const char* name : kPlannedStrategies)
    f.options(name, r.candidates[name], name, "Keys of this strategy, if it is chosen.");
}

}  // namespace convoy::train
