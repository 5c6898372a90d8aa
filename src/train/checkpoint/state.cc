#include "convoy/train/state.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "train/checkpoint/destination.h"

namespace convoy::train {
namespace {

std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

WeightsReport copy_matching(torch::nn::Module& module, const Tensors& source,
                            const std::map<std::string, std::string>& aliases) {
  const torch::NoGradGuard no_grad;
  WeightsReport report;
  Tensors targets = all_tensors(module);
  for (auto& [name, target] : targets) {
    const auto alias = aliases.find(name);
    const auto found = source.find(alias == aliases.end() ? name : alias->second);
    if (found == source.end()) {
      report.missing.push_back(name);
    } else if (found->second.sizes() != target.sizes()) {
      report.mismatched.push_back(name + " is " + shape_text(found->second.sizes()) +
                                  " in the file, " + shape_text(target.sizes()) + " in the model");
    } else {
      if (!target.is_same(found->second)) target.copy_(found->second);
      report.loaded.push_back(name);
    }
  }
  for (const auto& [name, tensor] : source) {
    if (targets.count(name) == 0) report.unexpected.push_back(name);
  }
  return report;
}

}  // namespace

Tensors all_tensors(const torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) tensors[item.key()] = item.value();
  }
  return tensors;
}

void describe_module(const torch::nn::Module& module, State& state) {
  std::map<const void*, std::string> seen;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor) {
    if (!tensor.defined()) return;
    const auto [place, fresh] = seen.emplace(tensor.unsafeGetTensorImpl(), name);
    if (fresh) {
      state.model[name] = tensor;
    } else {
      state.aliases[name] = place->second;
    }
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value());
  for (const auto& item : module.named_buffers()) add(item.key(), item.value());
}

std::string describe(const WeightsReport& report) {
  std::string text = std::to_string(report.loaded.size()) + " tensors match";
  if (!report.missing.empty()) text += "; missing in the file: " + list(report.missing);
  if (!report.unexpected.empty()) text += "; not in the model: " + list(report.unexpected);
  if (!report.mismatched.empty()) text += "; of another shape: " + list(report.mismatched);
  return text;
}

void load_module(torch::nn::Module& module, const State& state, const std::string& from) {
  const WeightsReport report = copy_matching(module, state.model, state.aliases);
  if (report.missing.empty() && report.unexpected.empty() && report.mismatched.empty()) return;
  throw UsageError(from + " is of another model: " + describe(report));
}

}  // namespace convoy::train
