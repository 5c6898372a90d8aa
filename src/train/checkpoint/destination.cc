#include "train/checkpoint/destination.h"

#include <utility>

#include "convoy/train/safetensors.h"
#include "train/checkpoint/scalar_types.h"

namespace convoy::train {

std::string shape_text(at::IntArrayRef shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

Destination::Destination(Slice slice, const std::string& type)
    : slice_(std::move(slice)),
      type_(scalar_type_of(type, slice_.tensor)),
      element_(size_of_type(type)),
      tensor_(torch::empty(slice_.size, type_)) {}

Destination::Destination(Slice slice, const std::string& type, torch::Tensor tensor)
    : slice_(std::move(slice)),
      type_(scalar_type_of(type, slice_.tensor)),
      element_(size_of_type(type)),
      tensor_(std::move(tensor)),
      straight_(tensor_.is_cpu() && tensor_.is_contiguous() && tensor_.scalar_type() == type_) {}

void Destination::take(const Slice& piece, std::span<const std::byte> bytes) {
  if (!straight_ && !copy_.defined()) copy_ = torch::empty(slice_.size, type_);
  const torch::Tensor& to = straight_ ? tensor_ : copy_;
  copy_overlap(piece, bytes, slice_, {static_cast<std::byte*>(to.mutable_data_ptr()), to.nbytes()},
               element_);
}

void Destination::finish() {
  if (!copy_.defined()) return;
  const torch::NoGradGuard no_grad;
  tensor_.copy_(copy_);
  copy_ = torch::Tensor();
}

}  // namespace convoy::train
