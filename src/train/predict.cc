#include "train/predict.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "train/check_inference.h"
#include "train/compute/batch_stage.h"
#include "train/evaluation_mode.h"
#include "train/rank_work.h"
#include "train/same_everywhere.h"
#include "train/samples/open.h"
#include "train/tasks/check_labels.h"

namespace convoy::train {
namespace {

using Json = nlohmann::json;

// Batches as tasks can take them: labels are for comparison alone, and may be missing or of other
// classes than the network's. Those are made up, and nobody looks at them.
class Labels {
 public:
  Labels(const Evaluated& what, const data::Dataset& dataset)
      : named_(!dataset.classes().empty()), problem_(problem(what, dataset)) {}

  // Why labels are made up where the data has some; empty: they aren't.
  const std::string& unknown() const { return problem_; }

  // Valid as long as `batch`, until the next call.
  data::Batch known(const data::Batch& batch) {
    data::Batch made = batch;
    if (!problem_.empty()) {
      labels_.assign(batch.labels.size(), 0);
      made.labels = labels_;
      made.label_lists = {};
    } else if (named_ && batch.label_lists.empty()) {
      labels_.assign(batch.labels.begin(), batch.labels.end());
      for (std::int64_t& label : labels_) label = std::max<std::int64_t>(label, 0);
      made.labels = labels_;
    }
    return made;
  }

 private:
  static std::string problem(const Evaluated& what, const data::Dataset& dataset) {
    try {
      check_labels(what.task, what.recipe.task.name, dataset, "the data");
      what.task.check(dataset, "the data");
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  }

  bool named_;  // labels are numbers of classes
  std::string problem_;
  std::vector<std::int64_t> labels_;
};

using Answers = std::vector<std::pair<std::size_t, Answer>>;  // by sample

// Between ranks. Names of classes may be any bytes, which this leaves as they are.
std::string to_text(const Answers& answers) {
  Json rows = Json::array();
  for (const auto& [sample, answer] : answers)
    rows.push_back({sample, answer.error, answer.lines, answer.json});
  std::string text;
  Json::to_msgpack(rows, text);
  return text;
}

void add_from_text(const std::string& text, Answers& to) {
  for (const Json& row : Json::from_msgpack(text)) {
    Answer answer;
    answer.error = row[1];
    answer.lines = row[2].get<std::vector<std::string>>();
    answer.json = row[3];
    to.emplace_back(row[0].get<std::size_t>(), std::move(answer));
  }
}

// Those of all ranks, on rank 0.
Answers gathered(const comm::Communicator& all, Answers own) {
  if (all.size() == 1) return own;
  Answers together;
  const std::vector<std::string> texts = all.gather_text(to_text(own));
  if (all.rank() != 0) return {};
  for (const std::string& text : texts) add_from_text(text, together);
  return together;
}

// Puts answers into the order of the data, with those samples that were left out of their batches.
// Throws Failure for answers that are there twice, or missing where none may be left out.
class InOrder {
 public:
  InOrder(const Task& task, const data::Dataset& dataset, data::OnBad on_bad, const UseAnswers& use)
      : task_(task), dataset_(dataset), on_bad_(on_bad), use_(use) {}

  // Of the next batch: behind those before it.
  void add(Answers answers) {
    std::sort(answers.begin(), answers.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<SampleAnswer> rows;
    for (auto& [sample, answer] : answers) {
      if (sample < next_ || sample >= dataset_.size())
        inconsistent("sample " + std::to_string(sample) + " was answered out of order");
      leave_out_until(sample, rows);
      push(std::move(answer), rows);
    }
    hand_over(rows);
  }
  void finish() {
    std::vector<SampleAnswer> rows;
    leave_out_until(dataset_.size(), rows);
    hand_over(rows);
  }

 private:
  // There may be any number of bad records between two good ones: they are handed over as they
  // come.
  static constexpr std::size_t kMostLeftOut = 1000;

  [[noreturn]] void inconsistent(const std::string& what) const {
    throw Failure("an internal inconsistency in predicting data: " + what + ", where sample " +
                  std::to_string(next_) + " of " + std::to_string(dataset_.size()) + " is next");
  }
  void leave_out_until(std::size_t sample, std::vector<SampleAnswer>& rows) {
    if (next_ < sample && on_bad_ != data::OnBad::skip)
      inconsistent("samples before " + std::to_string(sample) + " have no answers");
    while (next_ < sample) {
      Answer none;
      none.error = std::string(kLeftOut) + ": it could not be decoded";
      push(std::move(none), rows);
      if (rows.size() >= kMostLeftOut) hand_over(rows);
    }
  }
  void hand_over(std::vector<SampleAnswer>& rows) const {
    if (!rows.empty()) use_(rows);
    rows.clear();
  }
  void push(Answer answer, std::vector<SampleAnswer>& rows) {
    answer.input = dataset_.key(next_);
    rows.push_back({next_, task_.labels(dataset_, next_), std::move(answer)});
    ++next_;
  }

  const Task& task_;
  const data::Dataset& dataset_;
  const data::OnBad on_bad_;
  const UseAnswers& use_;
  std::size_t next_ = 0;  // sample
};

Answers answers_of(const Evaluated& what, const data::Batch& batch, int most) {
  Answers own;
  const bool answers_here = what.strategy.infer(
      what.task, what.compute, batch, [&](const TensorList& outputs, const TaskBatch& rows) {
        if (rows.samples.size() != batch.size()) {
          throw UsageError("the task " + what.recipe.task.name + " made rows of " +
                           std::to_string(rows.samples.size()) + " samples of a batch of " +
                           std::to_string(batch.size()) +
                           ": Task::tensors has to name each in TaskBatch::samples");
        }
        std::vector<Answer> answers = what.task.answers(outputs, rows, most);
        if (answers.size() != rows.samples.size()) {
          throw UsageError("the task " + what.recipe.task.name + " has " +
                           std::to_string(answers.size()) + " answers to " +
                           std::to_string(rows.samples.size()) +
                           " samples: Task::answers has to give one for each");
        }
        for (std::size_t i = 0; i < answers.size(); ++i)
          own.emplace_back(rows.samples[i], std::move(answers[i]));
      });
  return answers_here ? own : Answers();
}

}  // namespace

void predict(const Evaluated& what, const std::shared_ptr<const data::Dataset>& dataset, int most,
             const UseAnswers& use, const PredictionOptions& options) {
  const comm::Communicator& all = what.all;
  check_same_data(all, *dataset, "the data to predict");
  const auto source = open_evaluation(dataset,
                                      {what.recipe, what.task, what.arrangement,
                                       what.compute.layout(), 1, what.compute.batch_memory()},
                                      options.on_skip);
  Prefetch batches(what.compute.stage(), *source);
  Labels labels(what, *dataset);
  if (all.rank() == 0 && options.on_note && !dataset->classes().empty() &&
      !labels.unknown().empty())
    options.on_note("labels are those of the data, not the network's: " + labels.unknown());

  const EvaluationMode mode(what.strategy.module());
  const torch::NoGradGuard no_grad;
  check_inference(what, *source);
  InOrder in_order(what.task, *dataset, on_bad(what.recipe.data), use);
  // Whoever reads the rows may take his time, and the others wait for it: memory for one batch is
  // all there is.
  const auto on_rank_0_use = [&all](const std::function<void()>& work) {
    on_rank_0(all, [&work]() -> std::string {
      work();
      return "";
    });
  };
  while (const data::Batch* const batch = batches.next()) {
    batches.look_ahead();
    Answers answers = gathered(all, answers_of(what, labels.known(*batch), most));
    on_rank_0_use([&] { in_order.add(std::move(answers)); });
  }
  on_rank_0_use([&] { in_order.finish(); });
}

}  // namespace convoy::train
