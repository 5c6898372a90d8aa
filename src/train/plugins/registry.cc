#include "convoy/train/registry.h"

#include <dlfcn.h>

#include <cmath>
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/data/packed.h"
#include "convoy/model/factory.h"
#include "convoy/train/optimizer_rule.h"
#include "convoy/train/plugin.h"
#include "train/optimizer/grouped_optimizer.h"
#include "train/plugins/speech_reader.h"
#include "train/plugins/zoo.h"
#include "train/strategies/strategies.h"
#include "train/tasks/metrics.h"
#include "train/tasks/tasks.h"

namespace convoy::train {
namespace {

constexpr auto kPath = Option::Kind::path;

void check_image_folders(const Recipe& recipe, std::vector<std::string>& problems) {
  const auto check = [&](const Options& o, const char* table) {
    if (o.text("class_names").empty() || !o.text("labels").empty()) return;
    problems.push_back(std::string(table) + ".class_names is for images with a table of labels, " +
                       table + ".labels; without one, the subfolders are the classes");
  };
  check(recipe.data.train, "data.train");
  if (recipe.data.has_validation) check(recipe.data.validation, "data.validation");
}

void add_readers(Registry& registry) {
  registry.add_reader(
      "idx", [](const Options& o) { return data::open_idx(o.text("images"), o.text("labels")); },
      {{"images", std::string(), "IDX file of bytes, plain or gzip", kPath, true},
       {"labels", std::string(), "IDX file of as many labels", kPath, true}});
  const std::vector<Option> cifar{
      {"files", std::vector<std::string>(), "binary files, in this order", kPath, true},
      {"class_names", std::string(), "file with the names of the classes", kPath}};
  for (const auto& [name, kind] : {std::pair{"cifar10", data::CifarKind::cifar10},
                                   std::pair{"cifar100", data::CifarKind::cifar100}}) {
    registry.add_reader(
        name,
        [kind = kind](const Options& o) {
          return data::open_cifar(kind, o.texts("files"), o.text("class_names"));
        },
        cifar);
  }
  registry.add_reader(
      "image_folder",
      [](const Options& o, data::Peers& peers) {
        const data::LabelTable table{o.text("labels"), o.text("class_names")};
        if (!table.labels.empty()) return data::open_image_folder(o.text("path"), table, peers);
        if (table.class_names.empty()) return data::open_image_folder(o.text("path"), peers);
        throw UsageError(
            "image_folder: class_names is for images with a table of labels; "
            "without one, the subfolders are the classes");
      },
      {{"path", std::string(), "folder with a subfolder per class, or with images", kPath, true},
       {"labels", std::string(), "table of labels, any number for each image", kPath},
       {"class_names", std::string(), "file with the names of the table's classes", kPath}},
      check_image_folders);
  registry.add_reader(
      "packed",
      [](const Options& o) { return std::make_shared<data::PackedFiles>(o.texts("files")); },
      {{"files", std::vector<std::string>(), "tars with their indexes, or folders of them", kPath,
        true}});
  add_speech_reader(registry);
}

// Whether a plugin's rules can be made, for each group; the first mistake.
void try_rules(const OptimizerRecipe& recipe, const OptimizerFactory& make,
               std::vector<std::string>& problems) {
  try {
    make_update_rule(recipe, make);
    for (const ParameterGroupRecipe& group : recipe.groups)
      make_update_rule(values_of_group(recipe, group), make);
  } catch (const UsageError& error) {
    problems.emplace_back(error.what());
  } catch (const std::exception& error) {
    const std::string text = error.what();
    problems.push_back("the optimizer '" + recipe.name +
                       "' of a plugin can't be made: " + text.substr(0, text.find('\n')));
  }
}

[[noreturn]] void refuse_name(const std::string& what, const std::string& name) {
  throw UsageError("there is " + what + " '" + name + "' already; give yours another name");
}

// Their names are the same whatever the data; what stands in for what is not known yet is ImageNet.
std::vector<std::string> layers_of(const BlueprintFactory& make, const Recipe& recipe) {
  const auto or_else = [](std::int64_t value, int usual) {
    return value > 0 ? static_cast<int>(value) : usual;
  };
  const int side = or_else(recipe.data.size, 224);
  const TaskFacts facts;
  const model::Blueprint blueprint = make({.classes = or_else(recipe.model.classes, 1000),
                                           .image = {or_else(recipe.data.channels, 3), side, side},
                                           .options = recipe.model.options,
                                           .facts = facts,
                                           .seed = static_cast<std::uint64_t>(recipe.seed)});
  std::vector<std::string> names;
  for (const model::StageSpec& stage : blueprint.stages) {
    for (const model::Node& node : stage.nodes) names.push_back(node.name);
  }
  return names;
}

template <class Table, class Value>
void add(Table& table, const std::string& what, const std::string& name, Value value) {
  if (!table.emplace(name, std::move(value)).second) {
    refuse_name(what, name);
  }
}

}  // namespace

Registry::Registry() {
  add_zoo(*this);
  add_readers(*this);
  add_tasks(*this);
  add_strategies(*this);
}

void Registry::add_model(const std::string& name, ModelFactory make, std::vector<Option> options,
                         Vocabulary::Check check) {
  add(models_, "a model", name, std::move(make));
  vocabulary_.models[name] = std::move(options);
  vocabulary_.model_checks[name] = std::move(check);
}

void Registry::add_model(const std::string& name, BlueprintFactory make,
                         std::vector<Option> options, Vocabulary::Check check) {
  add(blueprints_, "a model", name, make);
  vocabulary_.layers[name] = [make](const Recipe& recipe) { return layers_of(make, recipe); };
  add_model(
      name,
      [make = std::move(make)](const ModelRequest& request) {
        return std::make_shared<model::StagedNetwork>(
            make(request), request.seed ? *request.seed : model::drawn_seed());
      },
      std::move(options), std::move(check));
}

void Registry::add_reader(const std::string& name, ReaderFactory open, std::vector<Option> options,
                          Vocabulary::Check check) {
  add_reader(
      name,
      [open = std::move(open)](const Options& o, data::Peers& peers) {
        std::shared_ptr<data::Dataset> dataset;
        data::together(peers, [&] { dataset = open(o); });
        return dataset;
      },
      std::move(options), std::move(check));
}

void Registry::add_reader(const std::string& name, SharedReaderFactory open,
                          std::vector<Option> options, Vocabulary::Check check) {
  add(readers_, "a reader", name, std::move(open));
  vocabulary_.readers[name] = std::move(options);
  vocabulary_.reader_checks[name] = std::move(check);
}

void Registry::add_strategy(const std::string& name, StrategyFactory make,
                            std::vector<Option> options, Vocabulary::Check check) {
  add(strategies_, "a strategy", name, std::move(make));
  vocabulary_.strategies[name] = std::move(options);
  vocabulary_.strategy_checks[name] = std::move(check);
}

void Registry::add_task(const std::string& name, TaskFactory make, std::vector<Option> options,
                        Vocabulary::Check check) {
  add(tasks_, "a task", name, make);
  vocabulary_.tasks[name] = std::move(options);
  vocabulary_.task_checks[name] = std::move(check);
  vocabulary_.metric_checks[name] = [make = std::move(make)](const Recipe& recipe,
                                                             std::vector<std::string>& problems) {
    check_metrics(recipe, make, problems);
  };
}

void Registry::add_optimizer(OptimizerKind kind, OptimizerFactory make) {
  if ((kind.rule != nullptr) == (make != nullptr)) {
    throw UsageError("the optimizer '" + kind.name + "' has " + (make ? "both" : "neither") +
                     " one of Convoy's rules " + (make ? "and" : "nor") + " a rule of its own");
  }
  const std::string name = kind.name;
  if (make) {
    kind.check = [make, check = std::move(kind.check)](const Recipe& recipe,
                                                       std::vector<std::string>& problems) {
      const std::size_t before = problems.size();
      if (check) check(recipe, problems);
      if (problems.size() == before) try_rules(recipe.optimizer, make, problems);
    };
  }
  vocabulary_.optimizers.add(std::move(kind));
  if (make) optimizers_[name] = std::move(make);
}

void Registry::add_optimizer(const std::string& name, OptimizerFactory make,
                             std::vector<Option> options, Vocabulary::Check check) {
  OptimizerKind kind;
  kind.name = name;
  kind.options = std::move(options);
  kind.check = std::move(check);
  add_optimizer(std::move(kind), std::move(make));
}

void Registry::add_schedule(ScheduleKind kind) {
  if (!kind.rate) throw UsageError("the schedule '" + kind.name + "' gives no rate");
  vocabulary_.schedules.add(std::move(kind));
}

void Registry::load_plugins(const std::vector<std::string>& libraries) {
  for (const std::string& library : libraries) {
    const auto open = [&library](int how) {
      if (void* const handle = dlopen(library.c_str(), how | RTLD_LOCAL)) return handle;
      const char* reason = dlerror();
      throw UsageError("plugin " + library + " can't be loaded: " + (reason ? reason : "?"));
    };
    // What it was built for is known before functions are looked for that may be gone since.
    void* const handle = open(RTLD_LAZY);
    using Interface = const char* (*)();
    using Register = void (*)(Registry*);
    const auto interface = reinterpret_cast<Interface>(dlsym(handle, "convoy_plugin_interface"));
    const auto fill = reinterpret_cast<Register>(dlsym(handle, "convoy_plugin_register"));
    if (interface == nullptr || fill == nullptr) {
      throw UsageError("plugin " + library +
                       " is no Convoy plugin: it has no CONVOY_PLUGIN (convoy/train/plugin.h)");
    }
    const std::string mine = CONVOY_PLUGIN_TAG;
    if (interface() != mine) {
      throw UsageError("plugin " + library + " was built for '" + interface() + "', this is '" +
                       mine + "'; compile it anew");
    }
    open(RTLD_NOW);
    try {
      fill(this);
    } catch (const UsageError& error) {
      throw UsageError("plugin " + library + ": " + error.what());
    }
  }
}

std::shared_ptr<model::Network> Registry::make_model(const std::string& name,
                                                     const ModelRequest& request) const {
  std::shared_ptr<model::Network> network = models_.at(name)(request);
  if (network == nullptr) throw UsageError("the model '" + name + "' of a plugin gave no network");
  if (request.classes > 0 && network->classes() != request.classes) {
    throw UsageError("the model '" + name + "' gives " + std::to_string(network->classes()) +
                     " scores where " + std::to_string(request.classes) + " were asked for");
  }
  return network;
}

std::optional<model::Blueprint> Registry::blueprint(const std::string& name,
                                                    const ModelRequest& request) const {
  const auto found = blueprints_.find(name);
  if (found == blueprints_.end()) return std::nullopt;
  return found->second(request);
}

std::shared_ptr<data::Dataset> Registry::open_data(const std::string& reader,
                                                   const Options& options) const {
  data::Alone alone;
  return open_data(reader, options, alone);
}

std::shared_ptr<data::Dataset> Registry::open_data(const std::string& reader,
                                                   const Options& options,
                                                   data::Peers& peers) const {
  return readers_.at(reader)(options, peers);
}

std::unique_ptr<Strategy> Registry::make_strategy(const std::string& name) const {
  return strategies_.at(name)();
}

OptimizerFactory Registry::optimizer(const std::string& name) const {
  const auto found = optimizers_.find(name);
  return found == optimizers_.end() ? OptimizerFactory() : found->second;
}

std::unique_ptr<Task> Registry::make_task(const Recipe& recipe) const {
  std::unique_ptr<Task> task = tasks_.at(recipe.task.name)(recipe);
  if (task == nullptr) {
    throw UsageError("the task '" + recipe.task.name + "' of a plugin gave nothing");
  }
  return task;
}

}  // namespace convoy::train
