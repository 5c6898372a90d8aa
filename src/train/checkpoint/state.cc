#include "convoy/train/state.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "convoy/base/error.h"
#include "convoy/train/safetensors.h"
#include "train/rank_work.h"

namespace convoy::train {
namespace {

using Json = nlohmann::json;

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

comm::Buffer bytes_of(const torch::Tensor& tensor) {
  return comm::Buffer(tensor.mutable_data_ptr(), tensor.nbytes(), comm::Type::u8);
}

// Small tensors of all ranks on rank 0, as "<rank>/<name>". All ranks have the same names.
Tensors gather(const comm::Communicator& communicator, const Tensors& mine) {
  Tensors all;
  for (const auto& [name, tensor] : mine) {
    torch::Tensor own = tensor.detach().cpu().contiguous();
    if (communicator.rank() != 0) {
      communicator.send(bytes_of(own), 0);
      continue;
    }
    all["0/" + name] = own;
    for (int rank = 1; rank < communicator.size(); ++rank) {
      torch::Tensor other = torch::empty_like(own);
      communicator.receive(bytes_of(other), rank);
      all[std::to_string(rank) + "/" + name] = other;
    }
  }
  return all;
}

// Names, types and shapes, in the order of names.
Json description_of(const Tensors& tensors) {
  Json list = Json::array();
  for (const auto& [name, tensor] : tensors) {
    list.push_back({name, name_of(tensor.scalar_type(), name), tensor.sizes().vec()});
  }
  return list;
}

// Tensors of this description: rank 0's own, or memory for them.
Tensors make_room(const Json& description, Tensors own) {
  for (const Json& entry : description) {
    torch::Tensor& tensor = own[entry[0].get<std::string>()];
    if (tensor.defined()) continue;
    TensorView view;
    view.type = entry[1].get<std::string>();
    tensor = torch::empty(entry[2].get<std::vector<std::int64_t>>(), type_of(view));
  }
  return own;
}

Tensors broadcast(const comm::Communicator& communicator, const Json& description, Tensors own) {
  Tensors tensors = make_room(description, std::move(own));
  for (auto& [name, tensor] : tensors) communicator.broadcast(bytes_of(tensor), 0);
  return tensors;
}

// Each rank's part of `all` on rank 0, which has them as gather() makes them.
Tensors scatter(const comm::Communicator& communicator, const Json& description, Tensors all) {
  Tensors tensors;
  if (communicator.rank() != 0) tensors = make_room(description, {});
  for (const Json& entry : description) {
    const std::string name = entry[0].get<std::string>();
    if (communicator.rank() != 0) {
      communicator.receive(bytes_of(tensors[name]), 0);
      continue;
    }
    tensors[name] = all.at("0/" + name);
    for (int rank = 1; rank < communicator.size(); ++rank) {
      communicator.send(bytes_of(all.at(std::to_string(rank) + "/" + name)), rank);
    }
  }
  return tensors;
}

// What all ranks have in ranks.safetensors under names of their own. Throws UsageError when they
// don't have the same.
Tensors of_rank(const Tensors& all, int rank) {
  const std::string prefix = std::to_string(rank) + "/";
  Tensors own;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) own[name.substr(prefix.size())] = tensor;
  }
  return own;
}

void check_alike(const Tensors& all, int world, const std::string& path) {
  const Json first = description_of(of_rank(all, 0));
  for (int rank = 1; rank < world; ++rank) {
    if (description_of(of_rank(all, rank)) == first) continue;
    throw UsageError(path + "/ranks.safetensors has other tensors for rank " +
                     std::to_string(rank) + " than for rank 0");
  }
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

State read_checkpoint(const comm::Communicator& communicator, const std::string& path,
                      const Manifest& manifest) {
  if (communicator.size() == 1) return read_checkpoint(path, manifest, 0, 1);
  State state;
  Tensors ranks;
  const std::string told = on_rank_0(communicator, [&] {
    state = read_checkpoint(path, manifest, 0, 1);
    if (communicator.size() == manifest.world && manifest.files.contains("ranks.safetensors")) {
      ranks = read(SafetensorsFile(path + "/ranks.safetensors"));
      check_alike(ranks, manifest.world, path);
    }
    return Json({description_of(state.model), description_of(state.optimizer),
                 description_of(of_rank(ranks, 0))})
        .dump();
  });
  const Json descriptions = Json::parse(told);
  state.model = broadcast(communicator, descriptions[0], std::move(state.model));
  state.optimizer = broadcast(communicator, descriptions[1], std::move(state.optimizer));
  state.rank = scatter(communicator, descriptions[2], std::move(ranks));
  state.aliases = manifest.aliases;
  state.numbers = manifest.numbers;
  state.lists = manifest.lists;
  return state;
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
