#include "convoy/train/state.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/train/safetensors.h"

namespace convoy::train {
namespace {

struct TypeName {
  at::ScalarType type;
  const char* name;
};
constexpr TypeName kTypes[] = {{at::kDouble, "F64"},    {at::kFloat, "F32"}, {at::kHalf, "F16"},
                               {at::kBFloat16, "BF16"}, {at::kLong, "I64"},  {at::kInt, "I32"},
                               {at::kShort, "I16"},     {at::kChar, "I8"},   {at::kByte, "U8"},
                               {at::kBool, "BOOL"}};

const char* name_of(at::ScalarType type, const std::string& tensor) {
  for (const TypeName& entry : kTypes) {
    if (entry.type == type) return entry.name;
  }
  throw UsageError("tensor '" + tensor +
                   "' has a type that safetensors files can't hold: " + c10::toString(type));
}

at::ScalarType type_of(const TensorView& view) {
  for (const TypeName& entry : kTypes) {
    if (view.type == entry.name) return entry.type;
  }
  throw UsageError("tensor '" + view.name + "' has the type " + view.type +
                   ", which is not supported");
}

void write(const std::string& path, const Tensors& tensors) {
  std::vector<torch::Tensor> whole;  // keeps the bytes alive
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    whole.push_back(tensor.detach().cpu().contiguous());
    const torch::Tensor& t = whole.back();
    views.push_back({name,
                     name_of(t.scalar_type(), name),
                     t.sizes().vec(),
                     {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
  }
  write_safetensors(path, views, {{"format", "pt"}});
}

// Those whose name begins with `prefix`, which their names here lack.
Tensors read(const SafetensorsFile& file, const std::string& prefix = "") {
  Tensors tensors;
  for (const TensorView& view : file.tensors()) {
    if (!view.name.starts_with(prefix)) continue;
    torch::Tensor t = torch::empty(view.shape, type_of(view));
    std::memcpy(t.mutable_data_ptr(), view.bytes.data(), view.bytes.size());
    tensors[view.name.substr(prefix.size())] = std::move(t);
  }
  return tensors;
}

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

// Every tensor of a module by every name.
Tensors all_tensors(const torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) tensors[item.key()] = item.value();
  }
  return tensors;
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
      target.copy_(found->second);
      report.loaded.push_back(name);
    }
  }
  for (const auto& [name, tensor] : source) {
    if (targets.count(name) == 0) report.unexpected.push_back(name);
  }
  return report;
}

// Rank 0 does something that may fail; all ranks hear of it.
std::string on_rank_0(const comm::Communicator& communicator,
                      const std::function<std::string()>& work) {
  std::string result, error;
  if (communicator.rank() == 0) {
    try {
      result = work();
    } catch (const std::exception& e) {
      error = e.what();
    }
  }
  error = communicator.broadcast_text(error, 0);
  if (!error.empty()) throw Failure(error);
  return communicator.broadcast_text(result, 0);
}

// Small tensors of all ranks on rank 0, as "<rank>/<name>". All ranks have the same names.
Tensors gather(const comm::Communicator& communicator, const Tensors& mine) {
  Tensors all;
  for (const auto& [name, tensor] : mine) {
    torch::Tensor own = tensor.detach().cpu().contiguous();
    const auto bytes = [](const torch::Tensor& t) {
      return comm::Buffer(t.mutable_data_ptr(), t.nbytes(), comm::Type::u8);
    };
    if (communicator.rank() != 0) {
      communicator.send(bytes(own), 0);
      continue;
    }
    all["0/" + name] = own;
    for (int rank = 1; rank < communicator.size(); ++rank) {
      torch::Tensor other = torch::empty_like(own);
      communicator.receive(bytes(other), rank);
      all[std::to_string(rank) + "/" + name] = other;
    }
  }
  return all;
}

}  // namespace

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

std::string write_checkpoint(const comm::Communicator& communicator, const CheckpointFolder& folder,
                             Manifest manifest, const State& state, const Retention& retention) {
  const Tensors ranks = gather(communicator, state.rank);
  manifest.aliases = state.aliases;
  manifest.numbers.insert(state.numbers.begin(), state.numbers.end());
  manifest.lists = state.lists;
  return on_rank_0(communicator, [&] {
    return folder.write(
        std::move(manifest),
        [&](const std::string& path) {
          write(path + "/model.safetensors", state.model);
          if (!state.optimizer.empty()) write(path + "/optimizer.safetensors", state.optimizer);
          if (!ranks.empty()) write(path + "/ranks.safetensors", ranks);
        },
        retention);
  });
}

State read_checkpoint(const std::string& path, const Manifest& manifest, int rank, int world) {
  State state;
  state.model = read(SafetensorsFile(path + "/model.safetensors"));
  if (manifest.files.count("optimizer.safetensors") > 0) {
    state.optimizer = read(SafetensorsFile(path + "/optimizer.safetensors"));
  }
  if (world == manifest.world && manifest.files.count("ranks.safetensors") > 0) {
    state.rank = read(SafetensorsFile(path + "/ranks.safetensors"), std::to_string(rank) + "/");
  }
  state.aliases = manifest.aliases;
  state.numbers = manifest.numbers;
  state.lists = manifest.lists;
  return state;
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

WeightsReport load_weights(torch::nn::Module& module, const std::string& file, bool partial) {
  const SafetensorsFile opened(file);
  WeightsReport report = copy_matching(module, read(opened), {});
  // Counters that older files of PyTorch lack; training doesn't need them.
  const auto counter = [](const std::string& name) {
    constexpr std::string_view kSuffix = "num_batches_tracked";
    return name.size() >= kSuffix.size() &&
           name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0;
  };
  std::erase_if(report.missing, counter);
  const bool whole =
      report.missing.empty() && report.unexpected.empty() && report.mismatched.empty();
  if (!whole && !partial) {
    throw UsageError(file + " does not fit the model: " + describe(report) +
                     ". To take what fits, set model.partial = true");
  }
  if (report.loaded.empty()) throw UsageError(file + " fits no tensor of the model");
  return report;
}

}  // namespace convoy::train
