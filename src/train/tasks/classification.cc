#include "train/tasks/classification.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/train/evaluate.h"
#include "train/tasks/label_rows.h"

namespace convoy::train {
namespace {

constexpr const char* kClasses = "classes";
constexpr const char* kPictures = "image.pictures";  // 0 where the data is none
// With a map: the labels of the data that was trained on, and the name of the class of each.
constexpr const char* kLabels = "labels";
constexpr const char* kLabelClasses = "label_classes";

// A name for a message. Two may look the same and have other bytes: an accent is a letter's, or a
// character behind it.
std::string quoted(const std::string& name, bool bytes) {
  if (!bytes) return "'" + name + "'";
  std::string text = "'" + name + "' (bytes";
  for (const char c : name) {
    char hex[4];
    std::snprintf(hex, sizeof hex, " %02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    text += hex;
  }
  return text + ")";
}

constexpr const char* kNoNumbers =
    "the network's scores are no numbers (nan), so that no class is the most likely one";

bool is_ascii(const std::string& name) {
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Labels are numbers: different classes would be compared with each other. Those of `other` may be
// fewer, or in another order, and are counted as those of `one` then (renumbered()), unless one of
// them is new.
void check_same_classes(const std::string& both, const std::vector<std::string>& one,
                        const std::vector<std::string>& other, const char* what = "classes") {
  for (std::size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
    if (i < one.size() && i < other.size() && one[i] == other[i]) continue;
    const bool bytes =
        i < one.size() && i < other.size() && !is_ascii(one[i]) && !is_ascii(other[i]);
    const auto named = [&](const std::vector<std::string>& names) {
      return i < names.size() ? quoted(names[i], bytes) : "missing";
    };
    std::string why = both + " have different " + what + ": number " + std::to_string(i) + " is " +
                      named(one) + " in one, " + named(other) + " in the other";
    const auto unknown = std::find_if(other.begin(), other.end(), [&](const std::string& name) {
      return std::find(one.begin(), one.end(), name) == one.end();
    });
    if (unknown != other.end()) {
      why += "; the first may have more than the second, but '" + *unknown +
             "' is in the second alone";
    }
    throw UsageError(why);
  }
}

// A map goes by the numbers of labels: in another order each would be of another class. A map that
// is another one by now is for other labels, of which those that were known have their class still.
void check_same_labels(const std::string& what, const TaskFacts& trained,
                       const std::vector<std::string>& labels,
                       const std::vector<std::string>& classes) {
  const auto known = trained.lists.find(kLabels), known_classes = trained.lists.find(kLabelClasses);
  // The checkpoint is of a version that did not keep them.
  if (known == trained.lists.end() || known_classes == trained.lists.end()) return;
  if (classes == known_classes->second) {
    check_same_classes("what the network was trained on and " + what, known->second, labels,
                       "labels, of which task.options.classes says the classes");
    return;
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto at = std::find(known->second.begin(), known->second.end(), labels[i]);
    if (at == known->second.end()) continue;
    const std::string& then =
        known_classes->second.at(static_cast<std::size_t>(at - known->second.begin()));
    if (then == classes[i]) continue;
    throw UsageError("task.options.classes makes '" + classes[i] + "' of the label '" + labels[i] +
                     "' of " + what + "; the network was trained with '" + then + "' for it");
  }
}

class Softmax final : public Classification {
 public:
  using Classification::Classification;

 private:
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor& labels) const override {
    namespace F = torch::nn::functional;
    return F::cross_entropy(scores, labels,
                            F::CrossEntropyFuncOptions().label_smoothing(smoothing()));
  }
  torch::Tensor divided_targets(const TaskBatch& batch) const override {
    return batch.tensors.at("labels");
  }
  PartLoss divided_loss(const torch::Tensor& outputs, const torch::Tensor& labels,
                        const torch::Tensor& factors, const OutputPart& part) const override {
    const torch::NoGradGuard no_grad;
    const torch::Tensor scores = wide(outputs.detach());
    const std::int64_t rows = scores.size(0);
    const auto least = torch::full({rows}, -std::numeric_limits<double>::infinity(),
                                   scores.options().device(torch::kCPU));
    if (labels.lt(0).logical_or(labels.ge(part.all)).any().item<bool>())
      throw UsageError("a label is not among the network's " + std::to_string(part.all) +
                       " scores");
    const torch::Tensor largest =
        part.reduce(part.size > 0 ? scores.amax(1) : least, comm::ReduceOp::max)
            .to(scores.device());
    const torch::Tensor powers = (scores - largest.unsqueeze(1)).exp();
    const torch::Tensor sum = part.reduce(powers.sum(1), comm::ReduceOp::sum);
    // What is wanted: 1 for the label, and as much for each class with smoothing.
    torch::Tensor wanted = torch::full_like(scores, smoothing() / static_cast<double>(part.all));
    const torch::Tensor own = labels - part.begin;
    const torch::Tensor here = own.ge(0).logical_and(own.lt(part.size));
    const torch::Tensor found = here.nonzero().flatten();
    wanted.index_put_({found, own.index({found})},
                      torch::full({}, 1 - smoothing(), wanted.options()),
                      /*accumulate=*/true);
    const torch::Tensor weights = factors.to(scores.options()).unsqueeze(1);
    PartLoss loss;
    loss.gradient = ((powers / sum.unsqueeze(1) - wanted) * weights).to(outputs.scalar_type());
    // The logarithm of the sum counts once for each row, as the wanted ones together do.
    const torch::Tensor relative = largest.unsqueeze(1) + sum.log().unsqueeze(1) - scores;
    loss.value = (relative.masked_fill(wanted == 0, 0) * wanted * weights).sum().item<double>();
    return loss;
  }
  torch::Tensor probabilities(const torch::Tensor& scores) const override {
    return scores.softmax(1);
  }
  torch::Tensor mean_of_views(const torch::Tensor& scores) const override {
    return scores.log_softmax(2).logsumexp(1) - std::log(static_cast<double>(scores.size(1)));
  }
};

}  // namespace

Classification::Classification(const Recipe& recipe)
    : recipe_(recipe),
      smoothing_(recipe.task.options.number("label_smoothing")),
      class_of_(recipe) {}

void Classification::look(const data::Dataset& training, const data::Dataset* validation) {
  if (validation != nullptr) {
    check_same_classes("data.train and data.validation", training.classes(), validation->classes());
  }
  const data::Shape shape = input_shape(training, recipe_.data);
  facts_.numbers = {{"image.channels", shape.channels},
                    {"image.height", shape.height},
                    {"image.width", shape.width}};
  if (!training.pictures()) facts_.numbers[kPictures] = 0;
  facts_.lists = {{kClasses, class_of_.names(training.classes(), "data.train")}};
  if (!class_of_.empty()) {
    facts_.lists[kLabels] = training.classes();
    facts_.lists[kLabelClasses] = class_of_.each(facts_.lists.at(kClasses));
  }
  const auto classes = static_cast<std::int64_t>(facts_.lists.at(kClasses).size());
  if (recipe_.model.classes > 0 && recipe_.model.classes < classes) {
    throw UsageError("model.classes is " + std::to_string(recipe_.model.classes) +
                     ", but there are " + std::to_string(classes) + " classes");
  }
}

void Classification::restore(const TaskFacts& facts) {
  for (const char* key : {"image.channels", "image.height", "image.width"}) {
    if (facts.numbers.count(key) == 0)
      throw UsageError(std::string("the checkpoint lacks the number task.") + key);
  }
  if (facts.lists.count(kClasses) == 0)
    throw UsageError("the checkpoint lacks the names of the classes");
  facts_ = facts;
  // --set data.size asks for another one.
  if (recipe_.data.size > 0) {
    const auto size = static_cast<double>(recipe_.data.size);
    facts_.numbers["image.height"] = facts_.numbers["image.width"] = size;
  }
}

void Classification::check(const data::Dataset& data, const std::string& what) const {
  const std::vector<std::string> classes = class_of_.names(data.classes(), what);
  check_same_classes("what the network was trained on and " + what, facts_.lists.at(kClasses),
                     classes);
  if (!class_of_.empty()) check_same_labels(what, facts_, data.classes(), class_of_.each(classes));
}

std::string Classification::summary() const {
  return std::to_string(facts_.lists.at(kClasses).size()) + " classes";
}

std::int64_t Classification::outputs() const {
  return recipe_.model.classes > 0 ? recipe_.model.classes
                                   : static_cast<std::int64_t>(facts_.lists.at(kClasses).size());
}

data::Shape Classification::image() const {
  const auto number = [this](const char* key) { return static_cast<int>(facts_.numbers.at(key)); };
  return {number("image.channels"), number("image.height"), number("image.width")};
}

TaskBatch Classification::tensors(const data::Batch& batch, data::Range rows,
                                  const Compute& compute) const {
  TaskBatch part = targets(batch, rows, compute);
  part.tensors["images"] = compute.images(batch, rows);
  return part;
}

TaskBatch Classification::targets(const data::Batch& batch, data::Range rows,
                                  const Compute& compute) const {
  TaskBatch part;
  part.tensors["labels"] = labels_of(batch, rows, compute);
  part.samples = batch.samples.subspan(rows.begin, rows.size());
  part.weight = static_cast<double>(rows.size());
  return part;
}

torch::Tensor Classification::labels_of(const data::Batch& batch, data::Range rows,
                                        const Compute& compute) const {
  const auto labels = batch.labels.subspan(rows.begin, rows.size());
  if (class_of_.empty()) return compute.labels(labels);
  std::vector<std::int64_t> classes;
  for (std::size_t i = 0; i < labels.size(); ++i)
    classes.push_back(class_of_(labels[i], batch.samples[rows.begin + i]));
  return compute.labels(classes);
}

torch::Tensor Classification::blank_labels(std::int64_t samples, const Compute& compute) const {
  return torch::zeros({samples},
                      torch::TensorOptions().dtype(torch::kLong).device(compute.device()));
}

TaskBatch Classification::blank(std::int64_t samples, const Compute& compute) const {
  TaskBatch batch;
  batch.tensors["images"] = compute.blank(image()).repeat({samples, 1, 1, 1});
  batch.tensors["labels"] = blank_labels(samples, compute);
  batch.weight = static_cast<double>(samples);
  return batch;
}

torch::Tensor Classification::scores_of(const TensorList& outputs, std::int64_t samples) const {
  const torch::Tensor scores = wide(outputs.at(0));
  if (scores.size(0) == samples) return scores;
  return mean_of_views(scores.reshape({samples, -1, scores.size(1)}));
}

torch::Tensor Classification::loss(const TensorList& outputs, const TaskBatch& batch) const {
  const torch::Tensor& labels = batch.tensors.at("labels");
  return loss_of(scores_of(outputs, labels.size(0)), labels);
}

std::vector<Metric> Classification::metrics() const {
  return {
      {"top1", "top-1", true, true}, {"top5", "top-5", true, true}, {"loss", "loss", false, false}};
}

void Classification::measure(const TensorList& outputs, const TaskBatch& batch,
                             std::span<double> sums) const {
  const torch::Tensor& labels = batch.tensors.at("labels");
  const auto n = static_cast<double>(labels.size(0));
  const torch::Tensor scores = scores_of(outputs, labels.size(0));
  const std::int64_t k = std::min<std::int64_t>(5, scores.size(1));
  const torch::Tensor hits = std::get<1>(scores.topk(k, 1)).eq(labels.unsqueeze(1));
  sums[kSamples] += n;
  sums[kTop1] += hits.narrow(1, 0, 1).sum().item<double>();
  sums[kTop5] += hits.sum().item<double>();
  sums[kLoss] += loss_of(scores, labels).item<double>() * n;
}

std::vector<double> Classification::figures(std::span<const double> sums) const {
  const double n = sums[kSamples];
  // Of no samples nothing is known: not that the loss is 0.
  if (n == 0)
    return std::vector<double>(metrics().size(), std::numeric_limits<double>::quiet_NaN());
  // Scores that are no numbers have some order, too, and with it a class.
  if (std::isnan(sums[kLoss])) return {sums[kLoss], sums[kLoss], sums[kLoss]};
  return {sums[kTop1] / n, sums[kTop5] / n, sums[kLoss] / n};
}

std::string Classification::name_of(std::int64_t index) const {
  const std::vector<std::string>& names = facts_.lists.at(kClasses);
  const auto i = static_cast<std::size_t>(index);
  return i < names.size() ? names[i] : std::to_string(index);
}

std::vector<ClassProbability> Classification::most_likely(const Scored& sample,
                                                          std::int64_t most) const {
  const torch::Tensor indices =
      std::get<1>(sample.scores.topk(std::min<std::int64_t>(most, sample.scores.size(0))));
  const auto index = indices.accessor<std::int64_t, 1>();
  const auto probability = sample.probabilities.accessor<double, 1>();
  std::vector<ClassProbability> best;
  for (std::int64_t i = 0; i < index.size(0); ++i)
    best.push_back({index[i], name_of(index[i]), probability[index[i]]});
  return best;
}

void Classification::answer(const Scored& sample, int most, Answer& to) const {
  describe(most_likely(sample, most), to);
}

// Scores that are no numbers have some order, too, and with it a class.
void Classification::answer_if_known(const Scored& sample, int most, Answer& to) const {
  if (sample.scores.isnan().any().item<bool>()) {
    to.error = (to.input.empty() ? "" : to.input + ": ") + std::string(kNoNumbers);
  } else {
    answer(sample, most, to);
  }
}

void Classification::each(
    const torch::Tensor& scores,
    const std::function<void(std::size_t row, const Scored& sample)>& use) const {
  const torch::Tensor here = scores.to(torch::kCPU);
  const torch::Tensor likely = probabilities(here.to(torch::kDouble));
  for (std::int64_t row = 0; row < here.size(0); ++row)
    use(static_cast<std::size_t>(row), {here[row], likely[row]});
}

std::vector<Answer> Classification::predict(const std::vector<std::string>& files, int most,
                                            const Compute& compute, const Forward& forward) const {
  if (facts_.numbers.contains(kPictures)) {
    throw UsageError("convoy predict takes pictures, and this network samples of the reader '" +
                     recipe_.data.reader +
                     "', which are none; `convoy predict --data` answers those of a data set");
  }
  std::vector<Answer> answers(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) answers[i].input = files[i];
  const auto failed = [&](std::size_t file, const std::string& why) { answers[file].error = why; };
  read_images(files, recipe_.data, image(), compute, failed, [&](const ImageBatch& images) {
    const auto rows = static_cast<std::int64_t>(images.files.size());
    each(scores_of(forward({images.pixels}), rows), [&](std::size_t row, const Scored& sample) {
      answer_if_known(sample, most, answers[images.files[row]]);
    });
  });
  return answers;
}

std::vector<Answer> Classification::answers(const TensorList& outputs, const TaskBatch& batch,
                                            int most) const {
  std::vector<Answer> all(batch.samples.size());
  each(scores_of(outputs, static_cast<std::int64_t>(all.size())),
       [&](std::size_t row, const Scored& sample) { answer_if_known(sample, most, all[row]); });
  return all;
}

std::string Classification::labels(const data::Dataset& data, std::size_t sample) const {
  const auto known = facts_.lists.find(kLabels), names = facts_.lists.find(kLabelClasses);
  // Without a map, or trained by a version that did not keep it.
  if (known == facts_.lists.end() || names == facts_.lists.end())
    return describe_labels(data, sample);
  const auto place = [](const std::vector<std::string>& in, const std::string& name) {
    return std::find(in.begin(), in.end(), name) - in.begin();
  };
  return describe_labels(data, sample, [&](const std::string& label) -> std::optional<LabelClass> {
    const auto at = static_cast<std::size_t>(place(known->second, label));
    if (at == known->second.size()) return std::nullopt;
    const std::string& name = names->second.at(at);
    return LabelClass{place(facts_.lists.at(kClasses), name), name};
  });
}

std::unique_ptr<Task> softmax_classification(const Recipe& recipe) {
  return std::make_unique<Softmax>(recipe);
}

}  // namespace convoy::train
