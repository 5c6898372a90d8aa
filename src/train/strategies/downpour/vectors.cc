#include "train/strategies/downpour/vectors.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/train/downpour.h"
#include "convoy/train/optimizer_rule.h"

namespace convoy::train {
namespace {

// A vector as ranks tell each other of it.
struct Told {
  std::string name;  // of the vector
  std::string tensor;
  std::uint64_t elements = 0;
  std::int64_t dimensions = 0;
  bool statistic = false;
  bool part = false;
};

std::string name_of(const Slice& slice) {
  std::string name = slice.tensor + "[";
  for (std::size_t d = 0; d < slice.shape.size(); ++d) {
    name += (d == 0 ? "" : ", ") + std::to_string(slice.begin[d]) + ":" +
            std::to_string(slice.begin[d] + slice.size[d]);
  }
  return name + "]";
}

Told told_of(const parallel::NamedTensor& tensor, bool statistic,
             const std::map<std::string, Slice>& parts, at::ScalarType type) {
  if (tensor.tensor.scalar_type() != type) {
    throw UsageError("'" + tensor.name + "' is of type " +
                     std::string(c10::toString(tensor.tensor.scalar_type())) +
                     "; a parameter server holds " +
                     (type == torch::kDouble ? "float64 with precision = \"float64\"" : "float32"));
  }
  Told told{tensor.name,         tensor.name, static_cast<std::uint64_t>(tensor.tensor.numel()),
            tensor.tensor.dim(), statistic,   false};
  const auto part = parts.find(tensor.name);
  if (part == parts.end() || part->second.whole()) return told;
  told.name = name_of(part->second);
  told.part = true;
  return told;
}

std::string text_of(const std::vector<Told>& all) {
  std::ostringstream text;
  for (const Told& t : all) {
    text << t.name << '\n'
         << t.tensor << '\n'
         << t.elements << ' ' << t.dimensions << ' ' << t.statistic << ' ' << t.part << '\n';
  }
  return text.str();
}

std::vector<Told> told_from(const std::string& text) {
  std::istringstream in(text);
  std::vector<Told> all;
  Told t;
  while (std::getline(in, t.name) && std::getline(in, t.tensor)) {
    in >> t.elements >> t.dimensions >> t.statistic >> t.part;
    in.ignore();
    all.push_back(t);
  }
  return all;
}

bool is_counter(const std::string& name) { return name.ends_with("num_batches_tracked"); }

}  // namespace

Vectors::Vectors(const comm::Communicator& ranks, const OptimizerRecipe& optimizer,
                 const std::vector<parallel::NamedTensor>& parameters,
                 const torch::nn::Module& module, const std::map<std::string, Slice>& parts,
                 at::ScalarType type)
    : type_(type) {
  std::vector<Told> mine;
  std::vector<torch::Tensor> tensors;
  const auto take = [&](const parallel::NamedTensor& tensor, bool statistic) {
    if (tensor.tensor.numel() == 0) return;  // nothing of a divided layer
    mine.push_back(told_of(tensor, statistic, parts, type));
    tensors.push_back(tensor.tensor);
  };
  for (const auto& parameter : parameters) take(parameter, false);
  for (const auto& buffer : parallel::unique_buffers(module)) {
    if (buffer.tensor.is_floating_point() && !is_counter(buffer.name)) take(buffer, true);
  }
  std::map<std::string, std::uint32_t> places;
  std::set<std::string> shared, pushed;
  const std::vector<std::string> all = ranks.gather_text(text_of(mine));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    for (const Told& told : told_from(all[static_cast<std::size_t>(rank)])) {
      const bool first =
          places.emplace(told.name, static_cast<std::uint32_t>(specs_.size())).second;
      if (!first) {
        shared.insert(told.name);
        continue;
      }
      if (rank == ranks.rank()) pushed.insert(told.name);
      server::VectorSpec spec{told.name, told.elements, std::nullopt};
      double scale = 0;
      if (!told.statistic) {
        spec.rule = parameter_rule(optimizer, told.tensor, told.dimensions);
        const std::size_t group = group_of(optimizer, told.tensor, told.dimensions);
        scale = group == 0 ? 1 : optimizer.groups[group - 1].lr_scale;
      }
      specs_.push_back(std::move(spec));
      scales_.push_back(scale);
    }
  }
  server::check(specs_);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    OwnVector own;
    own.vector = places.at(mine[i].name);
    own.tensor = tensors[i];
    own.statistic = mine[i].statistic;
    own.pushed = pushed.contains(mine[i].name);
    own.shared = shared.contains(mine[i].name);
    own.scale = scales_[own.vector];
    own.begin = elements_;
    elements_ += tensors[i].numel();
    own_.push_back(std::move(own));
  }
  // Views are handed over in the order of the description.
  std::sort(own_.begin(), own_.end(),
            [](const OwnVector& a, const OwnVector& b) { return a.vector < b.vector; });
}

std::vector<std::uint32_t> Vectors::pushed() const {
  std::vector<std::uint32_t> pushed;
  for (const OwnVector& own : own_) {
    if (own.pushed) pushed.push_back(own.vector);
  }
  return pushed;
}

torch::Tensor Vectors::new_block() const { return torch::zeros({elements_}, type_); }

torch::Tensor Vectors::view(const torch::Tensor& block, const OwnVector& own) const {
  return block.narrow(0, own.begin, own.tensor.numel()).view(own.tensor.sizes());
}

std::vector<server::ReadView> Vectors::to_push(const torch::Tensor& block) const {
  std::vector<server::ReadView> views;
  for (const OwnVector& own : own_) {
    if (!own.pushed) continue;
    views.push_back({own.vector,
                     {block.const_data_ptr<float>() + own.begin,
                      static_cast<std::size_t>(own.tensor.numel())}});
  }
  return views;
}

std::vector<server::ReadView> Vectors::to_read(const torch::Tensor& block) const {
  std::vector<server::ReadView> views;
  for (const OwnVector& own : own_) {
    views.push_back({own.vector,
                     {block.const_data_ptr<float>() + own.begin,
                      static_cast<std::size_t>(own.tensor.numel())}});
  }
  return views;
}

std::vector<server::WriteView> Vectors::to_write(torch::Tensor& block) const {
  std::vector<server::WriteView> views;
  for (const OwnVector& own : own_) {
    views.push_back({own.vector,
                     {block.mutable_data_ptr<float>() + own.begin,
                      static_cast<std::size_t>(own.tensor.numel())}});
  }
  return views;
}

std::vector<server::WriteView> Vectors::to_write(torch::Tensor& block, std::uint32_t slot) const {
  std::vector<server::WriteView> views = to_write(block);
  std::erase_if(views, [&](const server::WriteView& view) {
    const auto& rule = specs_[view.vector].rule;
    return !rule || slot >= optim::slots(*rule).size();
  });
  return views;
}

void Vectors::share(const comm::Communicator& ranks) const {
  if (ranks.size() == 1) return;
  std::vector<parallel::NamedTensor> tensors;
  for (const OwnVector& own : own_) {
    if (own.shared) tensors.push_back({specs_[own.vector].name, own.tensor});
  }
  parallel::broadcast_tensors(ranks, tensors);
}

}  // namespace convoy::train
