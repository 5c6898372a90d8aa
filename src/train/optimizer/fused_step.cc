#include "train/optimizer/fused_step.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "parallel/parallel_pieces.h"

namespace convoy::train {
namespace {

// Elements per piece: small enough to balance the threads, large enough that a piece's start-up
// (about a microsecond) is lost in it.
constexpr std::int64_t kPiece = 64 * 1024;

// Whether element i in memory is the same element in both; strides of dimensions of size 1 differ
// freely (a 1x1 convolution's gradient).
bool same_layout(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

torch::Tensor in_layout_of(const torch::Tensor& parameter, const torch::Tensor& tensor) {
  return torch::empty_like(parameter, torch::MemoryFormat::Preserve).copy_(tensor);
}

}  // namespace

bool can_fuse(const torch::Tensor& parameter) {
  const auto& gradient = parameter.grad();
  const auto type = parameter.scalar_type();
  return parameter.layout() == torch::kStrided && gradient.layout() == torch::kStrided &&
         parameter.device().is_cpu() && gradient.device().is_cpu() &&
         (type == torch::kFloat || type == torch::kDouble) && gradient.scalar_type() == type &&
         gradient.sizes() == parameter.sizes() && parameter.is_non_overlapping_and_dense();
}

void FusedStep::add(const optim::Rule& rule, std::int64_t step, const torch::Tensor& parameter,
                    const std::vector<torch::Tensor*>& slots) {
  if (!seen_.insert(parameter.unsafeGetTensorImpl()).second) {
    // Listed twice, so updated twice, one after the other, as LibTorch does.
    run();
    seen_.insert(parameter.unsafeGetTensorImpl());
  }
  const optim::Slots layout = optim::slots(rule);
  TORCH_INTERNAL_ASSERT(slots.size() == layout.size());
  Item item{rule, step, parameter, parameter.grad(), {}, slots.size()};
  if (!same_layout(item.gradient, parameter)) {
    item.gradient = in_layout_of(parameter, item.gradient);
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    torch::Tensor& slot = *slots[i];
    if (!slot.defined()) {
      slot = torch::full_like(parameter, layout[i].initial, {}, torch::MemoryFormat::Preserve);
    } else if (!same_layout(slot, parameter) || slot.scalar_type() != parameter.scalar_type()) {
      slot = in_layout_of(parameter, slot);
    }
    item.state[i] = slot;
  }
  items_.push_back(std::move(item));
}

std::vector<FusedStep::Piece> FusedStep::pieces() const {
  std::vector<Piece> pieces;
  for (std::size_t item = 0; item < items_.size(); ++item) {
    const std::int64_t size = items_[item].parameter.numel();
    for (std::int64_t begin = 0; begin < size; begin += kPiece)
      pieces.push_back({item, begin, std::min(begin + kPiece, size)});
  }
  return pieces;
}

template <typename T>
FusedStep::Spans<T> FusedStep::spans_of(const Piece& piece) const {
  const Item& item = items_[piece.item];
  const auto size = static_cast<std::size_t>(piece.end - piece.begin);
  Spans<T> spans{{item.parameter.data_ptr<T>() + piece.begin, size},
                 {item.gradient.const_data_ptr<T>() + piece.begin, size},
                 {}};
  for (std::size_t i = 0; i < item.slots; ++i)
    spans.state[i] = {item.state[i].data_ptr<T>() + piece.begin, size};
  return spans;
}

template <typename Use>
void FusedStep::for_each(const std::vector<Piece>& pieces, const Use& use) const {
  const int threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  parallel::parallel_pieces(pieces.size(), threads, [&](std::size_t i) {
    const Item& item = items_[pieces[i].item];
    const auto with = [&]<typename T>(const Spans<T>& spans) {
      use(i, item, spans, std::span<const std::span<T>>(spans.state.data(), item.slots));
    };
    item.parameter.scalar_type() == torch::kFloat ? with(spans_of<float>(pieces[i]))
                                                  : with(spans_of<double>(pieces[i]));
  });
}

void FusedStep::finish() {
  // Autograd has to notice that the weights changed, as with any operation in place.
  for (const Item& item : items_) torch::autograd::impl::bump_version(item.parameter);
  items_.clear();
  seen_.clear();
}

void FusedStep::run() {
  for_each(pieces(), []<typename T>(std::size_t, const Item& item, const Spans<T>& spans,
                                    std::span<const std::span<T>> state) {
    optim::update<T>(item.rule, item.step, spans.weights, spans.gradient, state);
  });
  finish();
}

std::vector<optim::Squares> FusedStep::accumulate() {
  const std::vector<Piece> pieces = this->pieces();
  std::vector<optim::Squares> parts(pieces.size());
  for_each(pieces, [&]<typename T>(std::size_t i, const Item& item, const Spans<T>& spans,
                                   std::span<const std::span<T>> state) {
    parts[i] = optim::accumulate<T>(item.rule, item.step, spans.weights, spans.gradient, state);
  });
  std::vector<optim::Squares> squares(items_.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) squares[pieces[i].item] += parts[i];
  return squares;
}

void FusedStep::run(const std::vector<double>& ratios) {
  const std::vector<Piece> pieces = this->pieces();
  for_each(pieces, [&]<typename T>(std::size_t i, const Item& item, const Spans<T>& spans,
                                   std::span<const std::span<T>> state) {
    optim::apply<T>(item.rule, item.step, ratios[pieces[i].item], spans.weights, spans.gradient,
                    state);
  });
  finish();
}

}  // namespace convoy::train
