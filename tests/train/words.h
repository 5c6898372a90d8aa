// A task with samples of different lengths, as a plugin would bring it: texts of a few letters, and
// a network that guesses each next letter. Counted in tokens, or in what tokens are worth.
#pragma once

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/data/dataset.h"
#include "convoy/model/network.h"
#include "convoy/train/registry.h"
#include "convoy/train/task.h"

namespace convoy::train::testing_data {

inline constexpr std::int64_t kLetters = 7;  // "a" to "g"

// Text i walks through the letters in steps of 1 + i mod 3, from a random one, for 2 to 12 letters.
class Words final : public data::Dataset {
 public:
  explicit Words(std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      RandomStream random(11, i);
      std::uint64_t letter = random.below(kLetters);
      std::vector<std::byte> text(2 + random.below(11));
      for (std::byte& c : text) {
        c = static_cast<std::byte>(letter);
        letter = (letter + 1 + i % 3) % kLetters;
      }
      texts_.push_back(std::move(text));
    }
  }
  std::size_t size() const override { return texts_.size(); }
  const std::vector<std::string>& classes() const override { return none_; }
  data::Record read(std::size_t i, std::vector<std::byte>&) const override {
    return {texts_[i], data::Encoding::planar_u8, {}, label(i)};
  }
  std::string key(std::size_t i) const override { return "words[" + std::to_string(i) + "]"; }
  // Its letters, which can be had without reading it.
  std::int64_t label(std::size_t i) const override {
    return static_cast<std::int64_t>(texts_[i].size());
  }
  std::uint64_t fingerprint() const override { return size(); }

 private:
  std::vector<std::vector<std::byte>> texts_;
  std::vector<std::string> none_;
};

class NextLetter final : public Task {
 public:
  // What a token of text i counts: 1 or, unless `worth` is 0, (i mod 3) times that.
  explicit NextLetter(double worth = 0) : worth_(worth) {}

  std::string unit() const override { return "tokens"; }
  void look(const data::Dataset&, const data::Dataset*) override {
    facts_.numbers["letters"] = kLetters;
  }
  void restore(const TaskFacts& facts) override {
    if (facts.numbers.count("letters") == 0) throw UsageError("the checkpoint lacks letters");
    facts_ = facts;
  }
  const TaskFacts& facts() const override { return facts_; }
  bool raw() const override { return true; }
  std::function<std::uint64_t(std::size_t)> cost(const data::Dataset& data) const override {
    return [&data](std::size_t i) { return static_cast<std::uint64_t>(data.label(i) - 1); };
  }

  double weight(const data::Batch& batch, data::Range rows) const override {
    double sum = 0;
    for (std::size_t i = rows.begin; i < rows.end; ++i)
      sum += static_cast<double>(batch.records[i].size() - 1) * worth_of(batch.samples[i]);
    return sum;
  }
  TaskBatch tensors(const data::Batch& batch, data::Range rows,
                    const Compute& compute) const override {
    std::size_t longest = 0;
    for (std::size_t i = rows.begin; i < rows.end; ++i)
      longest = std::max(longest, batch.records[i].size() - 1);
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(rows.size()),
                                          static_cast<std::int64_t>(longest)};
    torch::Tensor tokens = torch::zeros(shape, torch::kLong);
    torch::Tensor next = torch::full(shape, kNone, torch::kLong);
    torch::Tensor worth = torch::zeros(shape, torch::kDouble);
    for (std::size_t i = rows.begin; i < rows.end; ++i) {
      const auto row = static_cast<std::int64_t>(i - rows.begin);
      const auto& text = batch.records[i];
      for (std::size_t at = 0; at + 1 < text.size(); ++at) {
        tokens[row][static_cast<std::int64_t>(at)] = static_cast<std::int64_t>(text[at]);
        next[row][static_cast<std::int64_t>(at)] = static_cast<std::int64_t>(text[at + 1]);
        worth[row][static_cast<std::int64_t>(at)] = worth_of(batch.samples[i]);
      }
    }
    TaskBatch result;
    result.tensors["tokens"] = tokens.to(compute.device());
    result.tensors["next"] = next.to(compute.device());
    result.tensors["worth"] = worth.to(compute.device());
    result.samples = batch.samples.subspan(rows.begin, rows.size());
    result.weight = weight(batch, rows);
    return result;
  }
  // Texts of one letter.
  TaskBatch blank(std::int64_t samples, const Compute& compute) const override {
    TaskBatch batch;
    batch.tensors["tokens"] = torch::zeros({samples, 1}, torch::kLong).to(compute.device());
    return batch;
  }
  TensorList inputs(const TaskBatch& batch) const override { return {batch.tensors.at("tokens")}; }

  // Of tokens that count nothing: no number.
  torch::Tensor loss(const TensorList& outputs, const TaskBatch& batch) const override {
    namespace F = torch::nn::functional;
    const torch::Tensor each = F::cross_entropy(
        outputs.at(0).reshape({-1, kLetters}), batch.tensors.at("next").reshape({-1}),
        F::CrossEntropyFuncOptions().ignore_index(kNone).reduction(torch::kNone));
    const torch::Tensor worth = batch.tensors.at("worth").reshape({-1}).to(each.scalar_type());
    return (each * worth).sum() / worth.sum();
  }
  std::vector<Metric> metrics() const override {
    return {{"perplexity", "perplexity", false, false}, {"right", "right", true, true}};
  }
  std::string usual_best() const override { return "perplexity"; }
  std::size_t sums() const override { return 3; }
  void measure(const TensorList& outputs, const TaskBatch& batch,
               std::span<double> sums) const override {
    if (batch.weight == 0) return;
    const torch::Tensor right = outputs.at(0).argmax(2).eq(batch.tensors.at("next"));
    sums[0] += batch.weight;
    sums[1] += loss(outputs, batch).item<double>() * batch.weight;
    sums[2] += (right * batch.tensors.at("worth")).sum().item<double>();
  }
  std::vector<double> figures(std::span<const double> sums) const override {
    const double all = sums[0] > 0 ? sums[0] : 1;
    return {std::exp(sums[1] / all), sums[2] / all};
  }

  // Inputs are texts.
  std::vector<Answer> predict(const std::vector<std::string>& inputs, int most, const Compute&,
                              const Forward& forward) const override {
    std::vector<Answer> answers;
    for (const std::string& input : inputs) {
      Answer& answer = answers.emplace_back();
      answer.input = input;
      std::vector<std::int64_t> letters;
      for (const char c : input) letters.push_back(c - 'a');
      const bool good = !letters.empty() && std::all_of(letters.begin(), letters.end(), [](auto c) {
        return c >= 0 && c < kLetters;
      });
      if (!good) {
        answer.error = "'" + input + "' has other letters than a to g";
        continue;
      }
      const torch::Tensor scores = forward({torch::tensor(letters).unsqueeze(0)}).at(0);
      const torch::Tensor best = scores[0][-1].argsort(0, true);
      for (int i = 0; i < std::min(most, static_cast<int>(kLetters)); ++i)
        answer.lines.emplace_back(1, static_cast<char>('a' + best[i].item<int>()));
      answer.json = "{\"next\": \"" + answer.lines.front() + "\"}";
    }
    return answers;
  }

 private:
  static constexpr std::int64_t kNone = -100;
  double worth_of(std::size_t text) const {
    return worth_ == 0 ? 1 : worth_ * static_cast<double>(text % 3);
  }

  double worth_;
  TaskFacts facts_;
};

// One letter after the other, with what came before in its state. Its forward is code.
class Reader final : public model::Network {
 public:
  // norm: what it has read is normalized over letters and texts; one letter alone can't train it.
  explicit Reader(bool norm = false)
      : letters_(register_module("letters", torch::nn::Embedding(kLetters, 8))),
        state_(register_module("state",
                               torch::nn::GRU(torch::nn::GRUOptions(8, 12).batch_first(true)))),
        out_(register_module("out", torch::nn::Linear(12, kLetters))) {
    if (norm) norm_ = register_module("norm", torch::nn::BatchNorm1d(12));
  }

  torch::Tensor forward(torch::Tensor tokens) override {
    torch::Tensor read = std::get<0>(state_(letters_(tokens)));
    if (!norm_.is_empty()) read = norm_(read.transpose(1, 2)).transpose(1, 2);
    return out_(read);
  }
  std::array<std::int64_t, 3> image_shape() const override { return {0, 0, 0}; }
  std::int64_t classes() const override { return kLetters; }

 private:
  torch::nn::Embedding letters_;
  torch::nn::GRU state_;
  torch::nn::Linear out_;
  torch::nn::BatchNorm1d norm_{nullptr};
};

inline void add_words(Registry& registry) {
  registry.add_reader("words",
                      [](const Options& o) {
                        return std::make_shared<Words>(static_cast<std::size_t>(o.integer("size")));
                      },
                      {{"size", std::int64_t{60}, "texts"}});
  registry.add_task(
      "next_letter",
      [](const Recipe& r) { return std::make_unique<NextLetter>(r.task.options.number("worth")); },
      {{"worth", 0.0,
        "of a token of text 1, 4, ...; those after them: twice, those before: none"}});
  registry.add_model(
      "reader",
      [](const ModelRequest& r) { return std::make_shared<Reader>(r.options.flag("norm")); },
      {{"norm", false, "batch normalization"}});
}

}  // namespace convoy::train::testing_data
