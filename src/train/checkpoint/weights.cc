#include "train/checkpoint/weights.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/train/safetensors.h"
#include "train/checkpoint/scalar_types.h"
#include "train/rank_work.h"

namespace convoy::train {
namespace {

using Json = nlohmann::json;

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

torch::Tensor read_slice(const TensorView& view, const Slice& slice) {
  torch::Tensor value = torch::empty(slice.size, scalar_type_of(view.type, view.name));
  const std::span<std::byte> bytes(static_cast<std::byte*>(value.mutable_data_ptr()),
                                   value.nbytes());
  copy_overlap(whole_of(slice.tensor, view.shape), view.bytes, slice, bytes,
               size_of_type(view.type));
  return value;
}

// The names of each tensor of a module, by the first, which comes first.
std::map<std::string, std::vector<std::string>> names_in(const State& module) {
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& [name, tensor] : module.model) names[name] = {name};
  for (const auto& [alias, name] : module.aliases) names[name].push_back(alias);
  return names;
}

// For one process alone.
Weights find_weights(const torch::nn::Module& module, const SafetensorsFile& file,
                     const Wanted& wanted) {
  Weights found;
  State own;
  describe_module(module, own);
  found.state.aliases = own.aliases;
  std::set<std::string> known;
  for (const auto& [name, names] : names_in(own)) {
    const torch::Tensor& held = own.model.at(name);
    known.insert(names.begin(), names.end());
    const TensorView* view = nullptr;
    for (std::size_t i = 0; i < names.size() && view == nullptr; ++i) view = file.find(names[i]);
    if (view == nullptr) {
      found.report.missing.push_back(name);
    } else {
      const std::optional<Slice> slice = wanted(whole_of(name, view->shape));
      if (!slice) continue;
      slice->check();
      if (at::IntArrayRef(slice->size) == held.sizes()) {
        found.state.model[name] = read_slice(*view, *slice);
        if (!slice->whole()) found.state.parts[name] = *slice;
        found.report.loaded.push_back(name);
        continue;
      }
      found.report.mismatched.push_back(
          (slice->whole() ? name + " is " + shape_text(view->shape) : slice->text()) +
          " in the file, " + shape_text(held.sizes()) + " in the model");
    }
    found.state.model[name] = held.detach().to(held.options().device(torch::kCPU), false, true,
                                               torch::MemoryFormat::Contiguous);
  }
  for (const TensorView& view : file.tensors()) {
    if (!known.contains(view.name)) found.report.unexpected.push_back(view.name);
  }
  std::sort(found.report.unexpected.begin(), found.report.unexpected.end());
  return found;
}

std::string to_text(const WeightsReport& report) {
  return Json::array({report.loaded, report.missing, report.mismatched, report.unexpected})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of what ranks have found each for itself.
WeightsReport united(const std::vector<std::string>& reports) {
  std::set<std::string> loaded, missing, mismatched;
  std::map<std::string, std::size_t> unexpected;  // by how many
  for (const std::string& text : reports) {
    const auto lists = Json::parse(text).get<std::vector<std::vector<std::string>>>();
    loaded.insert(lists[0].begin(), lists[0].end());
    missing.insert(lists[1].begin(), lists[1].end());
    mismatched.insert(lists[2].begin(), lists[2].end());
    for (const std::string& name : lists[3]) ++unexpected[name];
  }
  WeightsReport report;
  report.loaded.assign(loaded.begin(), loaded.end());
  report.missing.assign(missing.begin(), missing.end());
  report.mismatched.assign(mismatched.begin(), mismatched.end());
  for (const auto& [name, ranks] : unexpected) {
    if (ranks == reports.size()) report.unexpected.push_back(name);
  }
  return report;
}

// Throws unless it is good enough.
void check(WeightsReport& report, const std::string& file, bool partial) {
  // Counters that older files of PyTorch lack; training doesn't need them.
  std::erase_if(report.missing,
                [](const std::string& name) { return name.ends_with("num_batches_tracked"); });
  const bool whole =
      report.missing.empty() && report.unexpected.empty() && report.mismatched.empty();
  if (!whole && !partial) {
    throw UsageError(file + " does not fit the model: " + describe(report) +
                     ". To take what fits, set model.partial = true");
  }
  if (report.loaded.empty()) throw UsageError(file + " fits no tensor of the model");
}

}  // namespace

Weights read_weights(const comm::Communicator& communicator, const torch::nn::Module& module,
                     const std::string& file, bool partial, const Wanted& wanted) {
  Weights weights;
  on_every_rank(communicator,
                [&] { weights = find_weights(module, SafetensorsFile(file), wanted); });
  weights.report = united(communicator.gather_text(to_text(weights.report)));
  check(weights.report, file, partial);
  return weights;
}

WeightsReport load_weights(torch::nn::Module& module, const std::string& file, bool partial) {
  Weights weights = find_weights(module, SafetensorsFile(file), everything);
  check(weights.report, file, partial);
  load_module(module, weights.state, file);
  return weights.report;
}

}  // namespace convoy::train
