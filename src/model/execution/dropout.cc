#include "convoy/model/dropout.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/model/randomness.h"
#include "model/randomness/runs.h"

namespace convoy::model {
namespace {

// What the mask holds of a sample: runs of units, with their places in the whole sample.
struct Run {
  std::int64_t begin, size;
};

std::vector<Run> runs_of(const Slice& part) {
  std::vector<Run> runs;
  for_each_run(part, [&](std::int64_t begin, std::int64_t size) { runs.push_back({begin, size}); });
  return runs;
}

template <class T>
void fill_row(T* out, const std::vector<Run>& runs, DropoutMask::Row row, T kept) {
  for (const Run& run : runs) {
    for (std::int64_t i = 0; i < run.size; ++i)
      *out++ = row.keeps(static_cast<std::uint64_t>(run.begin + i)) ? kept : T{0};
  }
}

}  // namespace

DropoutImpl::DropoutImpl(double probability, std::string layer)
    : torch::nn::Module("Dropout"), probability_(probability), layer_(std::move(layer)) {
  if (!(probability >= 0 && probability < 1)) {
    throw UsageError("layer '" + layer_ + "': its probability is " + std::to_string(probability) +
                     "; it has to be from 0 to less than 1");
  }
}

void DropoutImpl::pretty_print(std::ostream& stream) const {
  stream << "convoy::model::Dropout(p=" << probability_ << ")";
}

void DropoutImpl::set_part(Slice units) {
  units.check();
  part_ = std::move(units);
}

torch::Tensor DropoutImpl::forward(const torch::Tensor& input) {
  if (!is_training() || probability_ == 0 || input.numel() == 0) return input;
  if (RandomScope::current() == nullptr) return torch::dropout(input, probability_, true);
  return input * mask(input);
}

torch::Tensor DropoutImpl::mask(const torch::Tensor& input) const {
  const RandomScope& scope = *RandomScope::current();
  const auto samples = static_cast<std::int64_t>(scope.samples().size());
  const std::int64_t rows = input.dim() > 0 ? input.size(0) : 0;
  if (layer_.empty()) {
    throw UsageError(
        "a dropout layer has no name to take its mask by: call "
        "convoy::model::name_layers(network) once");
  }
  if (samples == 0 || rows % samples != 0) {
    throw UsageError("layer '" + layer_ + "' gets " + std::to_string(rows) + " rows for " +
                     std::to_string(samples) + " samples");
  }
  const std::int64_t each = input.numel() / samples;
  const bool whole = part_.shape.empty();
  if (!whole && part_.elements() != each) {
    throw UsageError("layer '" + layer_ + "' is to have " + part_.text() + ", but gets " +
                     std::to_string(each) + " units of a sample");
  }
  const std::vector<Run> runs = whole ? std::vector<Run>{{0, each}} : runs_of(part_);
  const DropoutMask masks(scope.seed(), scope.step(), layer_, probability_);
  const bool wide = input.scalar_type() == torch::kDouble;
  torch::Tensor mask = torch::empty(input.sizes(), wide ? torch::kDouble : torch::kFloat);
  const double kept = 1 / (1 - probability_);
  const std::span<const std::size_t> numbers = scope.samples();
  void* const out = mask.mutable_data_ptr();
  at::parallel_for(0, samples, std::max<std::int64_t>(1, 8192 / each),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t s = begin; s < end; ++s) {
                       const auto row = masks.of_sample(numbers[static_cast<std::size_t>(s)]);
                       if (wide) {
                         fill_row(static_cast<double*>(out) + s * each, runs, row, kept);
                       } else {
                         fill_row(static_cast<float*>(out) + s * each, runs, row,
                                  static_cast<float>(kept));
                       }
                     }
                   });
  // In the input's layout, or the product would be in another one.
  if (input.dim() == 4 || input.dim() == 5) mask = mask.contiguous(input.suggest_memory_format());
  return mask.to(input.device(), input.scalar_type());
}

void name_layers(torch::nn::Module& network) {
  for (const auto& child : network.named_modules("", /*include_self=*/false)) {
    if (auto* dropout = child.value()->as<DropoutImpl>()) dropout->set_layer(child.key());
  }
}

}  // namespace convoy::model
