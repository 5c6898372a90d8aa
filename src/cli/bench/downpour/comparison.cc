#include "cli/bench/downpour/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include "base/toml_text.h"
#include "cli/bench/downpour/sandblaster_arm.h"
#include "cli/bench/lists.h"
#include "cli/checks.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "convoy/train/downpour.h"
#include "convoy/train/optimizer_rule.h"

namespace convoy::cli {
namespace {

using train::Recipe;

constexpr int kMostReplicas = 10'000;
constexpr int kMostMiniBatches = 1'000'000;
constexpr double kTrainingFraction = 0.1;  // that evaluations are also on, of data.train

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const Method method : kMethods) names.emplace_back(name(method));
  return names;
}

Method method_of(const std::string& word, const char* option) {
  for (const Method method : kMethods) {
    if (word == name(method)) return method;
  }
  const std::string near = nearest_name(word, method_names());
  throw UsageError(std::string(option) + ": there is no method '" + word +
                   "'; there are sgd, fixed, adagrad, sandblaster, sync and gpu" +
                   (near.empty() ? "" : "; did you mean " + near + "?"));
}

int whole(const std::string& word, const char* option, int most) {
  const std::string problem = positive_integer(most)(word);
  if (!problem.empty()) throw UsageError(std::string(option) + ": " + problem);
  return std::stoi(word);
}

template <class T>
void add_once(std::vector<T>& list, T value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(std::move(value));
}

std::vector<Method> methods_of(const std::string& list) {
  std::vector<Method> methods;
  for (const std::string& word : split_list(list, "--methods"))
    add_once(methods, method_of(word, "--methods"));
  return methods;
}

std::vector<int> replicas_of(const std::string& list, std::int64_t usual) {
  if (list.empty()) return {static_cast<int>(usual)};
  std::vector<int> numbers;
  for (const std::string& word : split_list(list, "--replicas"))
    add_once(numbers, whole(word, "--replicas", kMostReplicas));
  return numbers;
}

using Exchange = std::pair<std::int64_t, std::int64_t>;  // n_fetch, n_push

std::vector<Exchange> exchanges_of(const std::string& list, const train::DownpourRecipe& usual) {
  if (list.empty()) return {{usual.n_fetch, usual.n_push}};
  std::vector<Exchange> exchanges;
  const auto number = [](const std::string& word) -> std::int64_t {
    return whole(word, "--exchange", kMostMiniBatches);
  };
  for (const std::string& word : split_list(list, "--exchange")) {
    const std::size_t colon = word.find(':');
    const std::int64_t fetch = number(word.substr(0, colon));
    add_once(exchanges,
             Exchange{fetch, colon == word.npos ? fetch : number(word.substr(colon + 1))});
  }
  return exchanges;
}

const char* rule_of(Method method) { return method == Method::adagrad ? "adagrad" : "sgd"; }

std::map<Method, double> rates_of(const std::string& list) {
  std::map<Method, double> rates;
  if (list.empty()) return rates;
  for (const std::string& word : split_list(list, "--lr")) {
    const std::size_t equals = word.find('=');
    if (equals == word.npos)
      throw UsageError("--lr: '" + word + "' is no METHOD=RATE; write for example sgd=0.05");
    const Method method = method_of(word.substr(0, equals), "--lr");
    if (method == Method::sandblaster)
      throw UsageError("--lr: sandblaster has no rate: it finds how long its steps are");
    const std::string text = word.substr(equals + 1), problem = positive_number()(text);
    if (!problem.empty()) throw UsageError("--lr: " + problem);
    if (!rates.emplace(method, std::strtod(text.c_str(), nullptr)).second)
      throw UsageError("--lr: " + std::string(name(method)) + " is there twice");
  }
  return rates;
}

// Whether --set gives the key, by itself or in its table.
bool is_set(const std::vector<std::string>& overrides, const char* key) {
  return train::gives({}, overrides, key);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

// What options say of each run can't be said for all.
void check_overrides(const std::vector<std::string>& overrides) {
  static const std::pair<const char*, const char*> kTaken[] = {
      {"strategy", "--methods says which are compared"},
      {"optimizer.name", "--methods says which rules are compared"},
      {"optimizer.lr", "--lr says the rate of each method"},
      {"downpour.replicas", "--replicas says how many"},
      {"sandblaster.replicas", "--replicas says how many"},
      {"downpour.n_fetch", "--exchange says it"},
      {"downpour.n_push", "--exchange says it"},
      {"output.folder", "--folder says where the folders of all runs are"}};
  for (const std::string& override : overrides) {
    for (const auto& [key, instead] : kTaken) {
      if (is_set({override}, key)) throw UsageError("--set " + override + ": " + instead);
    }
  }
}

class Maker {
 public:
  Maker(const train::RecipeText& text, const ComparisonWords& words,
        const train::Vocabulary& vocabulary, bool has_gpu)
      : words_(words), vocabulary_(vocabulary) {
    check_overrides(words.overrides);
    methods_ = methods_of(words.methods);
    rates_ = rates_of(words.rates);
    base_ = train::parse_recipe(text, words.overrides, vocabulary);
    if (base_.strategy != train::kDownpour) {
      throw UsageError(text.name + " has strategy \"" + base_.strategy +
                       "\"; bench downpour takes recipes with strategy = \"downpour\"");
    }
    downpour_ = train::downpour_of(base_);
    if (!base_.evaluates())
      throw UsageError(text.name + " has nothing to evaluate on: give it [data.validation]");
    if (base_.evaluation.from != "training" &&
        !train::gives(text, words.overrides, "evaluation.training_fraction"))
      base_.evaluation.training_fraction = kTrainingFraction;
    leave_out(Method::gpu, why_no_gpu(has_gpu));
    leave_out(Method::sandblaster,
              has_sandblaster(vocabulary) ? "" : "this program has no such strategy");
    if (methods_.empty()) throw UsageError("--methods: " + left_out_.front());
    if (std::find(methods_.begin(), methods_.end(), Method::sandblaster) != methods_.end())
      batch_ = sandblaster_recipe(text, words.overrides, vocabulary, base_, words.iterations);
  }

  Comparison make() {
    Comparison all;
    all.recipe = base_;
    all.folder = std::filesystem::absolute(
                     words_.folder.empty() ? "runs/" + base_.name + "-comparison" : words_.folder)
                     .lexically_normal()
                     .string();
    if (all.folder.size() > 1 && all.folder.ends_with('/')) all.folder.pop_back();
    all.hosts = words_.hosts.empty() ? joined(downpour_.hosts) : words_.hosts;
    for (const Method method : methods_) add_arms(method, all.arms);
    if (words_.warm_steps > 0) all.warm = warm_start();
    for (Arm& arm : all.arms) finish(arm, all);
    if (all.warm) finish(*all.warm, all);
    note(all);
    return all;
  }

 private:
  // Empty: it is there, and something else than sgd.
  std::string why_no_gpu(bool has_gpu) const {
    if (base_.device != "cpu") return "with device = \"cuda\" that is what sgd is";
    return has_gpu ? "" : "LibTorch has no GPU on this machine";
  }

  void leave_out(Method method, const std::string& why) {
    const auto found = std::find(methods_.begin(), methods_.end(), method);
    if (found == methods_.end() || why.empty()) return;
    methods_.erase(found);
    left_out_.push_back(std::string(name(method)) + " is left out: " + why);
  }

  double rate(Method method) const {
    const auto given = rates_.find(method);
    if (given != rates_.end()) return given->second;
    if (method == Method::gpu && rates_.contains(Method::sgd)) return rates_.at(Method::sgd);
    if (base_.optimizer.name == rule_of(method)) return base_.optimizer.lr;
    throw UsageError("--lr: which rate for '" + std::string(name(method)) + "'? The recipe's " +
                     shortest(base_.optimizer.lr) + " is for " + base_.optimizer.name +
                     "; write for example --lr " + name(method) + "=0.05");
  }

  // The rule of this name with what any rule has of the recipe's; its own keys where it is the
  // recipe's rule. Plain: what is compared is the rate, fixed or Adagrad's.
  train::OptimizerRecipe optimizer(Method method) const {
    const train::OptimizerRecipe& r = base_.optimizer;
    train::OptimizerRecipe own = r;
    if (r.name != rule_of(method))
      own = train::with_defaults(train::OptimizerRecipe{.name = rule_of(method)});
    if (own.options.has("momentum")) {
      own.options.set("momentum", 0.0);
      own.options.set("dampening", 0.0);
      own.options.set("nesterov", false);
    }
    own.weight_decay = r.weight_decay;
    own.groups = r.groups;
    own.lr = rate(method);
    return own;
  }

  int processes(int replicas) const {
    const std::int64_t all = replicas * std::max<std::int64_t>(1, base_.grid.partitions);
    if (all > kMostRanks)
      throw UsageError("--replicas: " + std::to_string(replicas) + " of " +
                       std::to_string(base_.grid.partitions) + " partitions are more than " +
                       std::to_string(kMostRanks) + " processes");
    return static_cast<int>(all);
  }

  train::Recipe recipe_of(Method method, Method rate_of) const {
    if (method == Method::sandblaster) return batch_;
    train::Recipe recipe = base_;
    if (!is_downpour(method)) {
      recipe = train::replica_recipe(base_);
      recipe.training.batch = base_.training.batch;  // in rounds that is a replica's share
    }
    recipe.optimizer = optimizer(rate_of);
    if (method == Method::gpu) recipe.device = "cuda";
    return recipe;
  }

  Arm arm(Method method, int replicas, std::int64_t seed, Method rate_of) const {
    Arm arm;
    arm.method = method;
    arm.replicas = replicas;
    arm.seed = seed;
    arm.processes = processes(replicas);
    arm.recipe = recipe_of(method, rate_of);
    arm.recipe.seed = seed;
    return arm;
  }

  void add_arms(Method method, std::vector<Arm>& arms) const {
    if (base_.seed > INT64_MAX - words_.seeds)
      throw UsageError("--seeds: there are not so many behind seed " + std::to_string(base_.seed));
    const auto numbers = is_one_worker(method) ? std::vector<int>{1}
                                               : replicas_of(words_.replicas, downpour_.replicas);
    const auto exchanges = is_downpour(method) ? exchanges_of(words_.exchange, downpour_)
                                               : std::vector<Exchange>{{0, 0}};
    for (const int replicas : numbers) {
      for (const auto& [fetch, push] : exchanges) {
        for (int i = 0; i < words_.seeds; ++i) {
          arms.push_back(arm(method, replicas, base_.seed + i, method));
          Arm& own = arms.back();
          own.name = name(method);
          if (!is_one_worker(method)) own.name += "-" + std::to_string(replicas);
          own.n_fetch = fetch;
          own.n_push = push;
          if (is_downpour(method)) {
            own.name += "-f" + std::to_string(fetch) + "-p" + std::to_string(push);
            set_downpour(own);
          } else if (has_servers(method)) {
            own.recipe.strategy_options.set("replicas", std::int64_t{replicas});
          }
          own.name += "-s" + std::to_string(own.seed);
        }
      }
    }
  }

  void set_downpour(Arm& arm) const {
    train::Options& options = arm.recipe.strategy_options;
    options.set("replicas", std::int64_t{arm.replicas});
    options.set("n_fetch", arm.n_fetch);
    options.set("n_push", arm.n_push);
    if (words_.warm_steps == 0) return;
    // One for all is enough.
    if (!is_set(words_.overrides, "downpour.warm_steps"))
      options.set("warm_steps", std::int64_t{0});
    if (!is_set(words_.overrides, "downpour.warm_seconds")) options.set("warm_seconds", 0.0);
  }

  // At the rate of sgd, or where that isn't said of fixed.
  Arm warm_start() const {
    const bool sgd = rates_.contains(Method::sgd) || base_.optimizer.name == rule_of(Method::sgd);
    const bool fixed = !sgd && rates_.contains(Method::fixed);
    if (!sgd && !fixed)
      throw UsageError(
          "--lr: which rate for the warm start? One plain worker makes it; write for "
          "example --lr sgd=0.05");
    Arm warm = arm(Method::sgd, 1, base_.seed, fixed ? Method::fixed : Method::sgd);
    warm.name = "warm-start";
    warm.recipe.training.epochs = 0;
    warm.recipe.training.steps = words_.warm_steps;
    warm.recipe.training.target = {};
    warm.recipe.schedule = {};  // whose milestones are those of the whole
    return warm;
  }

  void finish(Arm& arm, const Comparison& all) const {
    const auto problem = [&](const std::string& text) { throw UsageError(arm.name + ": " + text); };
    arm.recipe.output.folder = all.folder + "/" + arm.name;
    if (arm.method == Method::sync && arm.recipe.training.batch < arm.replicas) {
      problem("training.batch " + std::to_string(arm.recipe.training.batch) +
              " is divided among the workers, and has no sample for each of them");
    }
    try {
      train::parse_recipe({train::print_recipe(arm.recipe, false), arm.name + ".toml", "/"}, {},
                          vocabulary_);
    } catch (const UsageError& error) {
      problem(error.what());
    }
    if (!all.warm || &arm == &*all.warm) return;
    arm.recipe.model.weights = warm_weights(all.folder);
    arm.recipe.model.partial = false;
  }

  void note(Comparison& all) const {
    const auto batch = base_.training.batch;
    all.notes = left_out_;
    const train::Options& own = base_.optimizer.options;
    if (own.has("momentum") && own.number("momentum") != 0)
      all.notes.push_back("the recipe's momentum " + shortest(own.number("momentum")) +
                          " is left out: compared is plain SGD");
    if (std::find(methods_.begin(), methods_.end(), Method::sandblaster) != methods_.end())
      all.notes.push_back("sandblaster makes " + std::to_string(words_.iterations) +
                          " iterations at most, each of them of the whole training data, once or "
                          "more often");
    if (std::find(methods_.begin(), methods_.end(), Method::sync) != methods_.end())
      all.notes.push_back(
          "sync divides each mini-batch of " + std::to_string(batch) + " among its workers" +
          (downpour_.rounds()
               ? ", and so do Downpour's replicas"
               : "; with Downpour each replica's mini-batches have " + std::to_string(batch)));
    if (base_.evaluation.training_fraction > 0)
      all.notes.push_back("evaluations are also of a part of the training data, " +
                          shortest(base_.evaluation.training_fraction) + " of it");
    if (all.warm) {
      all.notes.push_back("all runs begin with the weights that one plain worker has after " +
                          std::to_string(words_.warm_steps) +
                          " mini-batches; these are not in their times");
    }
  }

  const ComparisonWords& words_;
  const train::Vocabulary& vocabulary_;
  Recipe base_;
  Recipe batch_;  // of sandblaster
  train::DownpourRecipe downpour_;
  std::vector<Method> methods_;
  std::vector<std::string> left_out_;
  std::map<Method, double> rates_;
};

}  // namespace

std::string warm_weights(const std::string& folder) { return folder + "/warm-start.safetensors"; }

Comparison make_comparison(const train::RecipeText& text, const ComparisonWords& words,
                           const train::Vocabulary& vocabulary, bool has_gpu) {
  return Maker(text, words, vocabulary, has_gpu).make();
}

}  // namespace convoy::cli
