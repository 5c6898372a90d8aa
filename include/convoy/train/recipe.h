// This is what to train, on what, and how: the TOML file that `convoy train` takes. Torch-free.
//
// docs/recipes.md explains every key; `convoy train --print-recipe` prints a complete recipe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/train/options.h"
#include "convoy/train/vocabulary.h"

namespace convoy::train {

struct ModelRecipe {
  std::string name;
  std::int64_t classes = 0;   // 0: as many as the data has
  bool channels_last = true;  // layout of weights and images
  std::string weights;        // safetensors file to start from
  bool partial = false;       // take from it what fits
  Options options;
};

// Says how a split is cropped; see data::TransformOptions.
struct CropRecipe {
  std::string crop = "none";
  std::int64_t padding = 4;
  std::int64_t resize = 256;
  std::vector<double> area = {0.08, 1};
  std::vector<double> ratio = {0.75, 4.0 / 3};
  std::int64_t left = 0;
  std::int64_t top = 0;
  bool flip = false;
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double lighting = 0;
};

struct DataRecipe {
  std::string reader;
  std::int64_t size = 0;      // height and width that the network sees; 0: as stored
  std::int64_t channels = 0;  // 0: those of the first record
  std::vector<double> mean = {0};
  std::vector<double> deviation = {1};
  std::string on_bad = "fail";
  bool drop_last = false;
  std::int64_t threads = 0;  // 0: by the cores that the rank has
  std::int64_t ahead = 2;
  std::string pixel = "float32";
  std::string store = "files";
  std::string store_memory;  // most of it on each host; empty: three quarters of what is free
  std::int64_t groups = 1;   // that hold the data once each, in memory; 0: as many as fit
  std::int64_t shuffle_every_epochs = 1;
  std::int64_t shuffle_every_steps = 0;
  bool random_batches = false;
  Options train;
  Options validation;
  bool has_validation = false;
  CropRecipe augment;
  CropRecipe evaluate{.crop = "center", .resize = 0};
};

// This is what samples are, and what is made of them (convoy/train/task.h).
struct TaskRecipe {
  std::string name = "classification";
  Options options;
};

// Says how ranks are arranged (convoy/parallel/grid.h).
struct GridRecipe {
  std::int64_t replicas = 0;  // 0: as many as there are ranks for
  std::int64_t partitions = 1;
};

// Says where layers are. Of several rules that fit a layer the last one counts; a layer that none
// fits is where its strategy puts it.
struct PlacementRule {
  std::vector<std::string> layers;  // patterns with * and ?; empty: all
  std::string how;                  // "replicated", or what else the strategy offers
  std::vector<double> parts;        // of the partitions, relative to each other; empty: even
  bool operator==(const PlacementRule&) const = default;
};
struct PlacementRecipe {
  std::vector<PlacementRule> layers;
  bool automatic = false;  // placement = "auto"
};

// Other values for the parameters that match.
struct ParameterGroupRecipe {
  std::vector<std::string> parameters = {};  // patterns with * and ?; empty: any name
  std::int64_t max_dims = 0;                 // only those of at most so many dimensions; 0: any
  double lr_scale = 1;
  double weight_decay = -1;          // -1: as the others
  std::int64_t trust_min_dims = -1;  // the same
  bool operator==(const ParameterGroupRecipe&) const = default;
};

// A recipe that a program puts together need not have all keys of a built-in optimizer or schedule:
// with_defaults (convoy/train/optimizer_rule.h, schedule.h) completes it, and who uses it does so.
struct OptimizerRecipe {
  std::string name = "sgd";
  double lr = 0.01;
  double weight_decay = 0;
  Options options = {};  // the optimizer's own keys, in the same table
  std::vector<ParameterGroupRecipe> groups = {};
  // What the name means, where the recipe was read; null: a built-in one, or nobody knows.
  std::shared_ptr<const OptimizerKind> kind = nullptr;
};

struct ScheduleRecipe {
  std::string name = "constant";
  std::string unit = "epochs";
  double warmup = 0;
  double warmup_from = 0;  // the first rate, as a part of lr
  Options options = {};    // the schedule's own keys, in the same table
  // What the name means, as of an optimizer.
  std::shared_ptr<const ScheduleKind> kind = nullptr;
};

// Training ends at the first evaluation that finds this.
struct TargetRecipe {
  std::string metric;  // of the task; empty: no target
  double level = 0;    // to reach or be beyond, in the direction in which the metric gets better
};

struct TrainingRecipe {
  std::int64_t batch = 0;
  std::int64_t accumulate = 1;
  std::int64_t epochs = 0;
  std::int64_t steps = 0;
  double clip_norm = 0;
  std::int64_t noise_every = 0;  // updates between measurements of the gradient's noise; 0: never
  TargetRecipe target = {};
};

struct EvaluationRecipe {
  std::int64_t every_epochs = 1;
  std::int64_t every_steps = 0;
  std::int64_t batch = 0;           // 0: training's
  std::string from = "validation";  // or "training"
  double fraction = 1;              // of it, a random part that is the same in all runs
  double training_fraction = 0;     // of data.train, in addition; 0: none
};

struct CheckpointRecipe {
  std::int64_t every_steps = 0;
  double every_minutes = 30;
  std::int64_t every_epochs = 1;
  std::int64_t keep = 3;
  bool keep_best = true;
  std::string best;          // the metric that says which; empty: the task's usual one
  bool asynchronous = true;  // written from a copy while training goes on
  std::string memory;        // for the copies of all ranks of a host; empty: half of what is free
};

struct OutputRecipe {
  std::string folder;  // empty: runs/<name>
  std::int64_t every_steps = 1;
  std::int64_t rank_times_every_steps = 10;  // 0: never
  bool tensorboard = true;
  bool log_samples = false;
};

// This is a strategy that is none: one of `candidates` is chosen where the training begins.
inline constexpr const char* kAutomatic = "auto";

struct Recipe {
  // Says whether there is anything to evaluate on.
  bool evaluates() const { return data.has_validation || evaluation.from == "training"; }
  // Says whether the planner chooses the strategy, or its scheme and grid.
  bool automatic() const { return strategy == kAutomatic || placement.automatic; }

  std::string name;
  std::string strategy = "sync";
  std::vector<std::string> plugins;
  std::int64_t seed = 1;
  std::int64_t threads = 0;
  std::string precision = "float32";
  std::string device = "cpu";  // or "cuda", or "cuda:1"
  bool tf32 = false;
  ModelRecipe model;
  DataRecipe data;
  TaskRecipe task;
  OptimizerRecipe optimizer;
  ScheduleRecipe schedule;
  TrainingRecipe training;
  EvaluationRecipe evaluation;
  CheckpointRecipe checkpoint;
  OutputRecipe output;
  GridRecipe grid;
  PlacementRecipe placement;
  Options strategy_options;  // the table named after the strategy
  // With strategy "auto" the tables of those that it may come to, by their names; with "downpour"
  // that of the strategy of a replica.
  std::map<std::string, Options> candidates;
};

// This is a recipe's text, and where it comes from: paths in it are relative to `folder`, `name`
// stands in messages and, without its extension, is the default of the recipe's name.
struct RecipeText {
  std::string text;
  std::string name;
  std::string folder = ".";
};
RecipeText read_recipe_file(const std::string& path);

// Gives the plugins that a recipe names, as paths: they are loaded before the rest is read, since
// they add to the vocabulary. `overrides` as in parse_recipe.
std::vector<std::string> plugins_of(const RecipeText& text,
                                    const std::vector<std::string>& overrides);

// Says whether the text or an override says what `key` ("evaluation.fraction") is, be it what it
// would be without. UsageError for what is no TOML.
bool gives(const RecipeText& text, const std::vector<std::string>& overrides,
           const std::string& key);

// Reads a recipe. `overrides` are "a.b=value" with a value in TOML, or a bare text; later ones win;
// paths in them are relative to the current folder. Throws one UsageError with all problems, a line
// each: unknown keys (with the nearest known one), wrong types, missing files, values that make no
// sense or contradict each other. A key of another optimizer or schedule than the chosen one may be
// there if it has its default, and is left out.
//
// An override of training.steps alone clears training.epochs, and the other way round. Which files
// that a recipe names may be missing is said by `files`.
enum class Files {
  must_exist,
  of_a_resumed_run,  // all but model.weights: the checkpoint has the weights
  may_be_missing     // what a checkpoint was trained on is not needed to use it
};
Recipe parse_recipe(const RecipeText& text, const std::vector<std::string>& overrides,
                    const Vocabulary& vocabulary, Files files = Files::must_exist);

// Gives the complete recipe as TOML that parse_recipe reads back to the same, whatever the folder:
// paths are absolute. With `comments`, each key is explained.
std::string print_recipe(const Recipe& recipe, bool comments);

// This is a key whose value differs between two recipes, as TOML; empty where one has no such key.
struct RecipeChange {
  std::string key;  // "optimizer.lr"
  std::string mine;
  std::string theirs;
};
// Compares recipes that were printed without comments.
std::vector<RecipeChange> recipe_changes(const std::string& mine, const std::string& theirs);
// Says whether a difference is one of versions alone. `change.mine` is of a recipe that this
// version has printed, and `change.theirs` of one that an earlier version may have. That one had
// the keys of all optimizers and schedules, those not chosen with their defaults, and lacked keys
// that have come since, which are at their defaults here.
bool is_of_an_earlier_version(const RecipeChange& change);

// Says where two recipes, printed without comments, differ: "training.batch is 64, on rank 0 it is
// 128"; it is empty if they don't. `other` is what to call the second.
std::string recipe_difference(const std::string& mine, const std::string& theirs,
                              const std::string& other);

}  // namespace convoy::train
