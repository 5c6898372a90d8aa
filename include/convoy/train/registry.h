// This is what recipes can name: models, readers, tasks, optimizers, schedules and strategies, the
// built-in ones and a plugin's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/data/dataset.h"
#include "convoy/data/peers.h"
#include "convoy/model/blueprint.h"
#include "convoy/model/network.h"
#include "convoy/train/options.h"
#include "convoy/train/strategy.h"
#include "convoy/train/task.h"
#include "convoy/train/update_rule.h"
#include "convoy/train/vocabulary.h"

namespace convoy::train {

struct ModelRequest {
  std::int64_t classes;    // scores per sample; 0 where the task leaves that open
  data::Shape image;       // what the data gives; nothing where samples are no images
  const Options& options;  // [model.options]
  const TaskFacts& facts;  // of the data
  // This seed is that of the first weights of networks that are data; without one, LibTorch's
  // generator gives it.
  std::optional<std::uint64_t> seed = std::nullopt;
};
// Makes a network with new weights from LibTorch's default generator, on the CPU.
using ModelFactory = std::function<std::shared_ptr<model::Network>(const ModelRequest&)>;
// Makes a network that is data: it can be built stage by stage.
using BlueprintFactory = std::function<model::Blueprint(const ModelRequest&)>;
// Opens a data set; the options are [data.train] or [data.validation].
using ReaderFactory = std::function<std::shared_ptr<data::Dataset>(const Options&)>;
// Does the same for ranks that open it together, so that one of them can look and tell the others:
// it is collective over the peers.
using SharedReaderFactory =
    std::function<std::shared_ptr<data::Dataset>(const Options&, data::Peers&)>;
using StrategyFactory = std::function<std::unique_ptr<Strategy>()>;
// Makes the task of a recipe, which it may keep a copy of.
using TaskFactory = std::function<std::unique_ptr<Task>(const Recipe&)>;

// There is one per program; filled before recipes are read, read-only afterwards.
class Registry {
 public:
  // Begins with everything that Convoy brings.
  Registry();

  // Each throws UsageError for a name that is taken already.
  void add_model(const std::string& name, ModelFactory make, std::vector<Option> options = {},
                 Vocabulary::Check check = {});
  void add_model(const std::string& name, BlueprintFactory make, std::vector<Option> options = {},
                 Vocabulary::Check check = {});
  void add_reader(const std::string& name, ReaderFactory open, std::vector<Option> options,
                  Vocabulary::Check check = {});
  void add_reader(const std::string& name, SharedReaderFactory open, std::vector<Option> options,
                  Vocabulary::Check check = {});
  void add_strategy(const std::string& name, StrategyFactory make, std::vector<Option> options,
                    Vocabulary::Check check = {});
  void add_task(const std::string& name, TaskFactory make, std::vector<Option> options = {},
                Vocabulary::Check check = {});
  // Convoy's own optimizers are such kinds, too. `make` is the rule of one that works on tensors,
  // which has no OptimizerKind::rule. Throws UsageError for one that has both, or neither.
  void add_optimizer(OptimizerKind kind, OptimizerFactory make = {});
  // Does so for a kind of this name, with these keys and this check.
  void add_optimizer(const std::string& name, OptimizerFactory make,
                     std::vector<Option> options = {}, Vocabulary::Check check = {});
  // Throws UsageError for one without a rate.
  void add_schedule(ScheduleKind kind);

  // Opens shared libraries that were made with CONVOY_PLUGIN (convoy/train/plugin.h); they stay
  // loaded for the rest of the process. Throws UsageError naming the library and what is wrong.
  void load_plugins(const std::vector<std::string>& libraries);

  const Vocabulary& vocabulary() const { return vocabulary_; }

  // These take names that parse_recipe has accepted.
  std::shared_ptr<model::Network> make_model(const std::string& name,
                                             const ModelRequest& request) const;
  // Describes it without building it; gives nothing for a network that is code.
  std::optional<model::Blueprint> blueprint(const std::string& name,
                                            const ModelRequest& request) const;
  std::shared_ptr<data::Dataset> open_data(const std::string& reader, const Options& options) const;
  // Is collective: every one of the peers calls it.
  std::shared_ptr<data::Dataset> open_data(const std::string& reader, const Options& options,
                                           data::Peers& peers) const;
  std::unique_ptr<Strategy> make_strategy(const std::string& name) const;
  std::unique_ptr<Task> make_task(const Recipe& recipe) const;
  // Empty for one of Convoy's rules, which needs none.
  OptimizerFactory optimizer(const std::string& name) const;

 private:
  Vocabulary vocabulary_;
  std::map<std::string, ModelFactory> models_;
  std::map<std::string, BlueprintFactory> blueprints_;
  std::map<std::string, SharedReaderFactory> readers_;
  std::map<std::string, StrategyFactory> strategies_;
  std::map<std::string, TaskFactory> tasks_;
  std::map<std::string, OptimizerFactory> optimizers_;
};

}  // namespace convoy::train
