#include "train/tasks/tasks.h"

#include "convoy/base/error.h"
#include "train/tasks/class_map.h"
#include "train/tasks/classification.h"
#include "train/tasks/label_rows.h"
#include "train/tasks/one_vs_all.h"

namespace convoy::train {
namespace {

// What both of them have.
void check_classification(const Recipe& recipe, std::vector<std::string>& problems) {
  ClassMap::check(recipe, problems);
  const double smoothing = recipe.task.options.number("label_smoothing");
  if (smoothing >= 0 && smoothing < 1) return;
  problems.push_back("task.options.label_smoothing is " + std::to_string(smoothing) +
                     "; it has to be at least 0 and below 1");
}

void check_one_vs_all(const Recipe& recipe, std::vector<std::string>& problems) {
  check_classification(recipe, problems);
  const double threshold = recipe.task.options.number("threshold");
  if (threshold > 0 && threshold < 1) return;
  problems.push_back("task.options.threshold is " + std::to_string(threshold) +
                     "; it has to be above 0 and below 1");
}

}  // namespace

PartLoss Task::divided_loss(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                            const OutputPart&) const {
  throw Failure("the task has targets for divided outputs, but no loss (Task::divided_loss)");
}

std::vector<Answer> Task::predict(const std::vector<std::string>&, int, const Compute&,
                                  const Forward&) const {
  throw UsageError("the task of this recipe predicts nothing (Task::predict)");
}

std::vector<Answer> Task::answers(const TensorList&, const TaskBatch&, int) const {
  throw UsageError(
      "the task of this recipe can't answer samples of a data set (Task::answers); `convoy eval` "
      "says how good the network is on one");
}

std::string Task::labels(const data::Dataset& data, std::size_t sample) const {
  return describe_labels(data, sample);
}

void add_tasks(Registry& registry) {
  std::vector<Option> keys{{"label_smoothing", 0.0, "part of a label spread over all classes"}};
  for (Option& key : ClassMap::keys()) keys.push_back(std::move(key));
  registry.add_task("classification", softmax_classification, keys, check_classification);
  keys.push_back({"threshold", 0.5, "a class above this probability is one of an image's labels"});
  registry.add_task("one_vs_all", one_vs_all, keys, check_one_vs_all);
}

}  // namespace convoy::train
