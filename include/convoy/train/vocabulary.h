// What a recipe may name, and the keys that belong to it. Torch-free.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convoy/optim/rule.h"
#include "convoy/train/options.h"

namespace convoy::train {

struct Recipe;

// This is what models, readers, tasks, optimizers, schedules and strategies say about a recipe that
// chooses them: each appends the mistakes that it finds, a line each, which begins with the key
// that it is of. Asked once the types of all keys are right, and before anything is opened.
using RecipeCheck = std::function<void(const Recipe& recipe, std::vector<std::string>& problems)>;

struct OptimizerRequest {
  double weight_decay;     // [optimizer]'s, or the group's own
  const Options& options;  // the optimizer's own keys in [optimizer]; during the call
};
// Makes one of Convoy's rules (convoy/optim/rule.h) with the values of a group of parameters; its
// learning rate is set behind that. Throws UsageError for values that make no sense.
using RuleFactory = std::function<optim::Rule(const OptimizerRequest& request)>;

// This is an optimizer that recipes can name, Convoy's own or a plugin's. Its keys stand in
// [optimizer], beside those that every optimizer has: name, lr, weight_decay and groups.
struct OptimizerKind {
  static constexpr const char* kSort = "optimizer";
  static std::vector<std::string> common_keys() { return {"name", "lr", "weight_decay", "groups"}; }

  std::string name = {};
  std::string doc = {};  // what it is, in one line
  // They may have the names of other optimizers' keys. Each should say what a resumed run does with
  // another value (Option::resume).
  std::vector<Option> options = {};
  // What is wrong with its keys together; asked where something is to be trained.
  RecipeCheck check = {};
  // An optimizer of one of Convoy's rules, which is updated in one pass over memory. Empty: its
  // rule works on tensors (Registry::add_optimizer).
  RuleFactory rule = {};
  // Says whether a parameter server may apply the rule. False: the rule goes by norms of whole
  // parameters, and a server has slices of them.
  bool on_servers = false;
};

// This is where a training is, as a schedule sees it.
struct ScheduleRequest {
  double lr;               // optimizer.lr
  const Options& options;  // the schedule's own keys in [schedule]; during the call
  double time;             // since the beginning, in schedule.unit
  double part;             // of the training behind its warm-up that has passed: 0 to 1
  double update;           // how long one update is, as a part of the training
};
// Gives the rate of the update that follows. It is a pure function of this, so that a resumed run
// needs no state for it.
using RateFunction = std::function<double(const ScheduleRequest& request)>;

// This is a schedule that recipes can name, Convoy's own or a plugin's. Its keys stand in
// [schedule], beside those that every schedule has: name, unit, warmup and warmup_from. The warm-up
// is not its matter: it rises to what `rate` gives at its end.
struct ScheduleKind {
  static constexpr const char* kSort = "schedule";
  static std::vector<std::string> common_keys() {
    return {"name", "unit", "warmup", "warmup_from"};
  }

  std::string name = {};
  std::string doc = {};  // what it is, in one line
  std::vector<Option> options = {};
  // What is wrong with its keys together; asked where something is to be trained.
  RecipeCheck check = {};
  RateFunction rate = {};
};

// Throws UsageError for a kind of this sort ("optimizer") that can't join others: its name is empty
// or taken, or one of its keys is there twice, or one that all of the sort have.
void check_new_kind(const std::string& sort, const std::string& name,
                    const std::vector<Option>& options, const std::vector<std::string>& common,
                    const std::vector<std::string>& taken);

// These are kinds of one sort, in the order in which they were added. They stay where they are, so
// that a recipe can hold its own.
template <class Kind>
class Kinds {
 public:
  using Pointer = std::shared_ptr<const Kind>;

  // Throws UsageError, see check_new_kind.
  void add(Kind kind) {
    check_new_kind(Kind::kSort, kind.name, kind.options, Kind::common_keys(), names());
    kinds_.push_back(std::make_shared<const Kind>(std::move(kind)));
  }
  // Null: there is none of this name.
  Pointer find(std::string_view name) const {
    for (const Pointer& kind : kinds_) {
      if (kind->name == name) return kind;
    }
    return nullptr;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Pointer& kind : kinds_) names.push_back(kind->name);
    return names;
  }
  typename std::vector<Pointer>::const_iterator begin() const { return kinds_.begin(); }
  typename std::vector<Pointer>::const_iterator end() const { return kinds_.end(); }

 private:
  std::vector<Pointer> kinds_;
};

struct Vocabulary {
  // Begins with the optimizers and schedules that Convoy brings, which need no Torch.
  Vocabulary();

  using Table = std::map<std::string, std::vector<Option>, std::less<>>;
  Table models;      // [model.options]
  Table readers;     // [data.train] and [data.validation]
  Table tasks;       // [task.options]
  Table strategies;  // a table named after the strategy
  Kinds<OptimizerKind> optimizers;
  Kinds<ScheduleKind> schedules;
  // The names of a model's layers, for models that are data. The numbers in the recipe may be
  // wrong: throws UsageError.
  using Layers = std::function<std::vector<std::string>(const Recipe& recipe)>;
  std::map<std::string, Layers, std::less<>> layers;
  using Check = RecipeCheck;
  std::map<std::string, Check, std::less<>> model_checks;
  std::map<std::string, Check, std::less<>> reader_checks;
  std::map<std::string, Check, std::less<>> task_checks;
  std::map<std::string, Check, std::less<>> strategy_checks;
  // By task, these check the metrics that the recipe goes by in training.
  std::map<std::string, Check, std::less<>> metric_checks;
};

}  // namespace convoy::train
