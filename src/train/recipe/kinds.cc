#include "train/recipe/kinds.h"

#include <stdexcept>

namespace convoy::train {

Option momentum_key() {
  return {.key = "momentum",
          .initial = 0.0,
          .doc = "the part of the last step that is made again",
          .resume = ResumeRule::fits,
          .check = number_check([](double momentum) -> std::string {
            if (!(momentum >= 1)) return "";
            return "has to be below 1: from there on updates grow without end";
          })};
}

Option beta1_key() {
  return {.key = "beta1",
          .initial = 0.9,
          .doc = "decay of the mean of gradients",
          .resume = ResumeRule::free};
}

Option beta2_key() {
  return {.key = "beta2",
          .initial = 0.999,
          .doc = "decay of the mean of their squares",
          .resume = ResumeRule::free};
}

Option eps_key(const std::string& usual) {
  return {.key = "eps",
          .initial = 0.0,
          .doc = "added to the denominator; 0: " + usual,
          .resume = ResumeRule::free};
}

Option amsgrad_key() {
  return {.key = "amsgrad",
          .initial = false,
          .doc = "divide by the largest mean of squares so far",
          .resume = ResumeRule::fits};
}

Option trust_min_dims_key() {
  return {.key = kTrustMinDims,
          .initial = kUsualTrustMinDims,
          .doc = "parameters of fewer dimensions are updated without a trust ratio; 0: none",
          .resume = ResumeRule::free,
          .check = [](const Value& value) -> std::string {
            return std::get<std::int64_t>(value) < 0 ? "is negative; 0 means all parameters" : "";
          }};
}

Option end_key() {
  return {.key = "end",
          .initial = 0.0,
          .doc = "the rate at the end, as a part of lr",
          .resume = ResumeRule::free,
          .check = number_check([](double end) -> std::string {
            if (!(end < 0)) return "";
            return "is " + plain_number(end) + "; it has to be at least 0";
          })};
}

std::string plain_number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

std::string all_of_words(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

Options completed(const std::vector<Option>& specification, const Options& given,
                  const std::string& whose) {
  Options all(specification);
  for (const Option& option : given.specification()) {
    if (!all.has(option.key)) throw std::logic_error(whose + " has no key '" + option.key + "'");
    all.set(option.key, given.value(option.key));
  }
  return all;
}

Options without_defaults(const Options& given) {
  std::vector<Option> others;
  for (const Option& option : given.specification()) {
    if (given.value(option.key) != option.initial) others.push_back(option);
  }
  Options all(others);
  for (const Option& option : others) all.set(option.key, given.value(option.key));
  return all;
}

}  // namespace convoy::train
