#include "model/execution/gradient_in_pieces.h"

#include <cstdint>
#include <utility>

#include "model/execution/cut.h"

namespace convoy::model {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.scalar_type() == b.scalar_type() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

// No view in autograd's eyes, which would ask it for a gradient of its own.
Tensor alias_of(const Tensor& view) {
  return torch::empty({0}, view.options().requires_grad(false))
      .set_(view.storage(), view.storage_offset(), view.sizes(), view.strides());
}

}  // namespace

class GradientInPieces::Sum {
 public:
  Sum(Tensor whole, const Slice& held)
      : whole_(std::move(whole)), held_(held), all_(whole_of(held.tensor, held.size)) {}

  bool is_of(const Tensor& whole) const { return whole_.is_same(whole); }
  const std::string& name() const { return held_.tensor; }
  std::size_t add_piece(const Slice& part) {
    Slice own{all_.tensor, all_.shape, part.begin, part.size};
    for (std::size_t d = 0; d < own.begin.size(); ++d) own.begin[d] -= held_.begin[d];
    parts_.push_back(std::move(own));
    return parts_.size() - 1;
  }
  // What autograd has of the last piece, which lives as long as something depends on it.
  void follow(const std::shared_ptr<torch::autograd::Node>& piece) { nodes_.push_back(piece); }
  Tensor piece(std::size_t i) const {
    return alias_of(model::cut(whole_.detach(), all_, parts_[i]));
  }

  Tensor place_of(const Tensor& piece) {
    for (const Slice& part : parts_) {
      if (!same_memory(model::cut(whole_.detach(), all_, part), piece)) continue;
      begin();
      return disjoint_ ? model::cut(gradient_, all_, part) : Tensor();
    }
    return {};
  }

  // Undefined until the gradients of all pieces have come.
  Tensor take(std::size_t i, const Tensor& gradient) {
    begin();
    const Tensor place = model::cut(gradient_, all_, parts_[i]);
    if (!disjoint_) {
      place.add_(gradient);
    } else if (!same_memory(place, gradient)) {
      place.copy_(gradient);
    }
    if (++come_ < expected_) return {};
    come_ = 0;
    return std::exchange(gradient_, Tensor());
  }
  bool finished() const { return come_ == 0; }

 private:
  // Nothing comes of a piece that nobody has used.
  void begin() {
    if (gradient_.defined()) return;
    std::vector<Slice> unused;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (nodes_.at(i).expired()) unused.push_back(parts_[i]);
    }
    expected_ = parts_.size() - unused.size();
    disjoint_ = !problem_of_tiling(all_, parts_);
    const auto options = whole_.options().requires_grad(false);
    gradient_ =
        disjoint_ ? torch::empty(whole_.sizes(), options) : torch::zeros(whole_.sizes(), options);
    for (const Slice& part : unused) model::cut(gradient_, all_, part).zero_();
  }

  Tensor whole_;
  Slice held_;
  Slice all_;                                                // the same as a tensor of its own,
  std::vector<Slice> parts_;                                 // of which these are parts
  std::vector<std::weak_ptr<torch::autograd::Node>> nodes_;  // of them
  // In backward:
  bool disjoint_ = false;  // and together all of it, so that nothing has to be added up
  std::size_t come_ = 0, expected_ = 0;
  Tensor gradient_;
};

// Carries its sum as a number, as autograd has it.
struct CutPiece : torch::autograd::Function<CutPiece> {
  static Tensor forward(AutogradContext* context, const Tensor& /*whole*/, std::int64_t address,
                        std::int64_t piece) {
    context->saved_data["sum"] = address;
    context->saved_data["piece"] = piece;
    return reinterpret_cast<GradientInPieces::Sum*>(address)  // NOLINT
        ->piece(static_cast<std::size_t>(piece));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const torch::NoGradGuard no_grad;
    auto& sum = *reinterpret_cast<GradientInPieces::Sum*>(  // NOLINT
        context->saved_data["sum"].toInt());
    const auto piece = static_cast<std::size_t>(context->saved_data["piece"].toInt());
    return {sum.take(piece, gradients[0]), Tensor(), Tensor()};
  }
};

GradientInPieces::GradientInPieces() = default;
GradientInPieces::~GradientInPieces() = default;

Tensor GradientInPieces::cut(const Tensor& whole, const Slice& held, const Slice& part) {
  if (part == held) return whole;
  if (!torch::GradMode::is_enabled() || !whole.requires_grad())
    return model::cut(whole, held, part);
  Sum* of_whole = nullptr;
  for (const auto& sum : sums_) {
    if (sum->is_of(whole)) of_whole = sum.get();
  }
  if (of_whole == nullptr) of_whole = sums_.emplace_back(std::make_unique<Sum>(whole, held)).get();
  const std::size_t piece = of_whole->add_piece(part);
  Tensor own = CutPiece::apply(whole, reinterpret_cast<std::int64_t>(of_whole),
                               static_cast<std::int64_t>(piece));
  of_whole->follow(own.grad_fn());
  return own;
}

std::string GradientInPieces::unfinished() const {
  for (const auto& sum : sums_) {
    if (!sum->finished()) return sum->name();
  }
  return {};
}

Tensor GradientInPieces::place_of(const Tensor& piece) {
  for (const auto& sum : sums_) {
    Tensor place = sum->place_of(piece);
    if (place.defined()) return place;
  }
  return {};
}

}  // namespace convoy::model
