#include "digits.h"

#include <convoy/base/error.h>
#include <convoy/base/random.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using convoy::train::TaskBatch;
using convoy::train::TensorList;

// Sequences of 1 to 12 digits, drawn when they are read. Sequence i follows from (seed, i) alone.
class Digits final : public convoy::data::Dataset {
 public:
  Digits(std::int64_t samples, std::int64_t seed)
      : samples_(static_cast<std::size_t>(samples)), seed_(static_cast<std::uint64_t>(seed)) {}

  std::size_t size() const override { return samples_; }
  const std::vector<std::string>& classes() const override { return none_; }
  std::string key(std::size_t i) const override { return "digits[" + std::to_string(i) + "]"; }
  // Its length: what the task wants to know without reading it.
  std::int64_t label(std::size_t i) const override {
    return static_cast<std::int64_t>(1 + convoy::RandomStream(seed_, i).below(12));
  }
  convoy::data::Record read(std::size_t i, std::vector<std::byte>& scratch) const override {
    convoy::RandomStream random(seed_, i, 1);
    scratch.resize(static_cast<std::size_t>(label(i)));
    for (std::byte& digit : scratch) digit = static_cast<std::byte>(random.below(10));
    return {.bytes = scratch, .label = label(i)};
  }
  std::uint64_t fingerprint() const override { return convoy::RandomStream(samples_, seed_)(); }

 private:
  std::size_t samples_;
  std::uint64_t seed_;
  std::vector<std::string> none_;
};

// After each digit, the sum of those so far. Batches are counted in digits.
class RunningSum final : public convoy::train::Task {
 public:
  std::string unit() const override { return "digits"; }

  // There is nothing to know of the data.
  void look(const convoy::data::Dataset&, const convoy::data::Dataset*) override {}
  void restore(const convoy::train::TaskFacts&) override {}
  const convoy::train::TaskFacts& facts() const override { return facts_; }

  bool raw() const override { return true; }
  std::function<std::uint64_t(std::size_t)> cost(const convoy::data::Dataset& data) const override {
    return [&data](std::size_t i) { return static_cast<std::uint64_t>(data.label(i)); };
  }
  double weight(const convoy::data::Batch& batch, convoy::data::Range rows) const override {
    std::size_t digits = 0;
    for (std::size_t i = rows.begin; i < rows.end; ++i) digits += batch.records[i].size();
    return static_cast<double>(digits);
  }

  // Rows of one length: the network takes -1 for "no digit", and `there` says where there are some.
  TaskBatch tensors(const convoy::data::Batch& batch, convoy::data::Range rows,
                    const convoy::train::Compute& compute) const override {
    std::size_t longest = 0;
    for (std::size_t i = rows.begin; i < rows.end; ++i)
      longest = std::max(longest, batch.records[i].size());
    torch::Tensor digits =
        torch::full({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(longest)},
                    -1, torch::kLong);
    for (std::size_t i = rows.begin; i < rows.end; ++i) {
      auto* row = digits[static_cast<std::int64_t>(i - rows.begin)].data_ptr<std::int64_t>();
      for (const std::byte digit : batch.records[i]) *row++ = static_cast<std::int64_t>(digit);
    }
    TaskBatch made;
    made.tensors["digits"] = digits.to(compute.device());
    made.samples = batch.samples.subspan(rows.begin, rows.size());
    made.weight = weight(batch, rows);
    return made;
  }
  TensorList inputs(const TaskBatch& batch) const override { return {batch.tensors.at("digits")}; }

  torch::Tensor loss(const TensorList& outputs, const TaskBatch& batch) const override {
    return squared_errors(outputs, batch).sum() / batch.weight;
  }
  std::vector<convoy::train::Metric> metrics() const override {
    return {{"error", "error of a sum", /*higher_is_better=*/false, /*percent=*/false}};
  }
  std::string usual_best() const override { return "error"; }
  std::size_t sums() const override { return 2; }
  void measure(const TensorList& outputs, const TaskBatch& batch,
               std::span<double> sums) const override {
    sums[0] += batch.weight;
    sums[1] += squared_errors(outputs, batch).sum().item<double>();
  }
  std::vector<double> figures(std::span<const double> sums) const override {
    return {std::sqrt(sums[1] / std::max(sums[0], 1.0))};
  }

  // `convoy predict RUN 123 4711`
  std::vector<convoy::train::Answer> predict(const std::vector<std::string>& inputs, int,
                                             const convoy::train::Compute& compute,
                                             const Forward& forward) const override {
    std::vector<convoy::train::Answer> answers;
    for (const std::string& input : inputs) {
      convoy::train::Answer& answer = answers.emplace_back();
      answer.input = input;
      if (input.empty() || input.find_first_not_of("0123456789") != std::string::npos) {
        answer.error = "'" + input + "' is no sequence of digits";
        continue;
      }
      std::vector<std::int64_t> digits;
      for (const char c : input) digits.push_back(c - '0');
      const torch::Tensor row = torch::tensor(digits).unsqueeze(0).to(compute.device());
      say(forward({row}).at(0)[0][-1].item<double>(), answer);
    }
    return answers;
  }
  // `convoy predict RUN --data`
  std::vector<convoy::train::Answer> answers(const TensorList& outputs, const TaskBatch& batch,
                                             int) const override {
    // Behind the last digit the sum stays what it is.
    const torch::Tensor sums = outputs.at(0).select(1, -1);
    std::vector<convoy::train::Answer> answers(batch.samples.size());
    for (std::size_t i = 0; i < answers.size(); ++i)
      say(sums[static_cast<std::int64_t>(i)].item<double>(), answers[i]);
    return answers;
  }

 private:
  static void say(double sum, convoy::train::Answer& answer) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", sum);
    answer.lines.emplace_back(text);
    answer.json = "{\"sum\": " + answer.lines.front() + "}";
  }
  static torch::Tensor squared_errors(const TensorList& outputs, const TaskBatch& batch) {
    const torch::Tensor& digits = batch.tensors.at("digits");
    const torch::Tensor sums = outputs.at(0), there = digits.ge(0);
    return (sums - digits.clamp_min(0).cumsum(1)).square() * there;
  }

  convoy::train::TaskFacts facts_;
};

// Knows a number for each digit, at first 0.
class Adder final : public convoy::model::Network {
 public:
  Adder() : Network("Adder"), values_(register_parameter("values", torch::zeros(10))) {}

  torch::Tensor forward(torch::Tensor digits) override {
    const torch::Tensor values = values_.index_select(0, digits.clamp_min(0).flatten());
    return (values.reshape(digits.sizes()) * digits.ge(0)).cumsum(1);
  }
  // Of networks for images; nobody asks for it here.
  std::array<std::int64_t, 3> image_shape() const override { return {}; }
  std::int64_t classes() const override { return 1; }

 private:
  torch::Tensor values_;
};

}  // namespace

void add_digits(convoy::train::Registry& registry) {
  registry.add_reader("digits",
                      [](const convoy::train::Options& options) {
                        const std::int64_t samples = options.integer("samples");
                        if (samples < 1)
                          throw convoy::UsageError("digits: samples has to be 1 or more");
                        return std::make_shared<Digits>(samples, options.integer("seed"));
                      },
                      {{"samples", std::int64_t{1000}, "sequences to draw"},
                       {"seed", std::int64_t{1}, "other sequences for another number"}});
  registry.add_task("running_sum",
                    [](const convoy::train::Recipe&) { return std::make_unique<RunningSum>(); });
  registry.add_model("adder",
                     [](const convoy::train::ModelRequest&) { return std::make_shared<Adder>(); });
}
