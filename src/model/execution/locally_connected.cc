#include "model/execution/locally_connected.h"

#include <ATen/autocast_mode.h>

#include <algorithm>

#include "model/execution/cut.h"
#include "model/execution/full_precision.h"
#include "model/execution/local_blocks.h"

namespace convoy::model {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A rectangle of the output's positions, with what they see of an image that is padded already.
// Either whole rows or a part of one, so that their weights are one run.
struct Block {
  std::int64_t row, rows, column, columns;
  layer::Pair kernel, stride;

  std::int64_t positions() const { return rows * columns; }
  Tensor of_image(const Tensor& image) const {
    return image.narrow(2, row * stride[0], (rows - 1) * stride[0] + kernel[0])
        .narrow(3, column * stride[1], (columns - 1) * stride[1] + kernel[1]);
  }
  // [positions, N, in * kernel height * kernel width], in memory for the largest block
  Tensor place_of_patches(const Tensor& image, const Tensor& memory) const {
    const std::int64_t seen = image.size(1) * kernel[0] * kernel[1];
    return memory.narrow(0, 0, positions() * image.size(0) * seen)
        .view({positions(), image.size(0), seen});
  }
  Tensor patches(const Tensor& image, const Tensor& memory) const {
    const Tensor windows = of_image(image)
                               .unfold(2, kernel[0], stride[0])
                               .unfold(3, kernel[1], stride[1])
                               .permute({2, 3, 0, 1, 4, 5});
    Tensor place = place_of_patches(image, memory);
    place.view(windows.sizes()).copy_(windows);
    return place;
  }
  // Adds the gradient of patches to that of the image.
  void add_patches(const Tensor& patches, const Tensor& image) const {
    const Tensor part = of_image(image);
    const std::int64_t samples = part.size(0), channels = part.size(1), width = part.size(3);
    const Tensor windows = patches.view({rows, columns, samples, channels, kernel[0], kernel[1]})
                               .permute({2, 3, 0, 1, 4, 5});
    const Tensor sums = at::unfold_backward(windows, {samples, channels, rows, width, kernel[0]}, 3,
                                            kernel[1], stride[1]);
    part.add_(at::unfold_backward(sums, part.sizes(), 2, kernel[0], stride[0]));
  }
  // [positions, out, in * kernel height * kernel width], a view
  Tensor of_weight(const Tensor& weight) const {
    return weight.narrow(0, row, rows)
        .narrow(1, column, columns)
        .view({positions(), weight.size(2), weight.size(3) * kernel[0] * kernel[1]});
  }
  // [N, out, rows, columns], a view
  Tensor of_output(const Tensor& output) const {
    return output.narrow(2, row, rows).narrow(3, column, columns);
  }
};

// Calls work(block, memory) for all positions, so many at a time that copies stay small. They share
// memory, and so do all pieces of `held` rows and columns, since it has the same size for each:
// blocks of all sizes would each leave one that is kept for the next step.
template <class Work>
void for_blocks(const Tensor& weight, const Tensor& image, layer::Pair stride, layer::Pair held,
                Work&& work) {
  const std::int64_t rows = weight.size(0), columns = weight.size(1);
  const std::int64_t bytes =
      image.size(0) * weight.size(3) * weight.size(4) * weight.size(5) * image.element_size();
  const auto [high, wide] = local_block(rows, columns, bytes);
  const LocalBlock largest = local_block(held[0], held[1], bytes);
  const std::int64_t most = std::max(high * wide, largest.rows * largest.columns);
  const Tensor memory = torch::empty({most * bytes / image.element_size()}, image.options());
  for (std::int64_t row = 0; row < rows; row += high) {
    for (std::int64_t column = 0; column < columns; column += wide) {
      work(Block{row,
                 std::min(high, rows - row),
                 column,
                 std::min(wide, columns - column),
                 {weight.size(4), weight.size(5)},
                 stride},
           memory);
    }
  }
}

class Products : public torch::autograd::Function<Products> {
 public:
  // REQUIRES: both contiguous
  static Tensor forward(AutogradContext* context, const Tensor& image, const Tensor& weight,
                        layer::Pair stride, layer::Pair held, GradientInPieces* gradients) {
    const std::int64_t samples = image.size(0), out = weight.size(2);
    const Tensor output =
        torch::empty({samples, out, weight.size(0), weight.size(1)}, image.options());
    for_blocks(weight, image, stride, held, [&](const Block& block, const Tensor& memory) {
      const Tensor values =
          torch::bmm(block.patches(image, memory), block.of_weight(weight).transpose(1, 2));
      block.of_output(output).copy_(
          values.view({block.rows, block.columns, samples, out}).permute({2, 3, 0, 1}));
    });
    context->saved_data["gradients"] = reinterpret_cast<std::int64_t>(gradients);
    context->saved_data["stride"] = std::vector<std::int64_t>{stride[0], stride[1]};
    context->saved_data["held"] = std::vector<std::int64_t>{held[0], held[1]};
    context->save_for_backward({image, weight});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    // A pixel's gradient is a sum over all filters that see it: too many for bfloat16.
    const FullPrecision full;
    const variable_list saved = context->get_saved_variables();
    const Tensor &image = saved[0], &weight = saved[1], &gradient = gradients[0];
    const auto strides = context->saved_data["stride"].toIntVector();
    const auto held = context->saved_data["held"].toIntVector();
    const bool wants_image = context->needs_input_grad(0);
    const bool wants_weight = context->needs_input_grad(1);
    Tensor of_image, of_weight;
    if (wants_image) of_image = torch::zeros(image.sizes(), full.options(image));
    if (wants_weight) of_weight = place_of_gradient(context, weight);
    for_blocks(weight, image, {strides[0], strides[1]}, {held[0], held[1]},
               [&](const Block& block, const Tensor& memory) {
                 const Tensor own = block.of_output(gradient)
                                        .permute({2, 3, 0, 1})
                                        .reshape({block.positions(), image.size(0), weight.size(2)})
                                        .contiguous();
                 if (wants_weight) {
                   Tensor part = block.of_weight(of_weight);
                   torch::bmm_out(part, own.transpose(1, 2), block.patches(image, memory));
                 }
                 if (!wants_image) return;
                 Tensor of_patches = block.place_of_patches(image, memory);
                 torch::bmm_out(of_patches, own, block.of_weight(weight));
                 block.add_patches(full(of_patches), of_image);
               });
    if (wants_image) of_image = of_image.to(image.scalar_type());
    return {of_image, of_weight, Tensor(), Tensor(), Tensor()};
  }

 private:
  static Tensor place_of_gradient(AutogradContext* context, const Tensor& weight) {
    auto* const gradients = reinterpret_cast<GradientInPieces*>(  // NOLINT: as autograd has it
        context->saved_data["gradients"].toInt());
    Tensor place = gradients == nullptr ? Tensor() : gradients->place_of(weight);
    if (place.defined() && place.is_contiguous()) return place;
    return torch::empty(weight.sizes(), weight.options());
  }
};

// As autocast would, which doesn't know this function: in its forward as well as its backward.
Tensor as_in_autocast(const Tensor& tensor, c10::DeviceType device) {
  if (!at::autocast::is_autocast_enabled(device)) return tensor;
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), tensor, device);
}

// Of maps, rows and columns those of a parameter, whose dimensions are rows, columns and maps, then
// what each filter has.
Slice of_parameter(const Slice& output, const Tensor& parameter) {
  Slice part = whole_of(output.tensor, parameter.sizes().vec());
  for (std::size_t d = 0; d < 3; ++d) {
    const std::size_t o = (d + 1) % 3;
    part.shape[d] = output.shape[o];
    part.begin[d] = output.begin[o];
    part.size[d] = output.size[o];
  }
  return part;
}

Tensor cut_parameter(const Tensor& parameter, const LocalPiece& piece) {
  const Slice held = of_parameter(piece.held, parameter),
              part = of_parameter(piece.part, parameter);
  return piece.gradients != nullptr ? piece.gradients->cut(parameter, held, part)
                                    : cut(parameter, held, part);
}

}  // namespace

Tensor locally_connected(const Tensor& image, const Tensor& weight, const Tensor& bias,
                         layer::Pair stride, const LocalPiece* piece) {
  const auto device = image.device().type();
  // Pieces are cut from what autocast makes of the whole, which it makes once.
  const auto own = [&](const Tensor& parameter) {
    const Tensor cast = as_in_autocast(parameter, device);
    return piece == nullptr ? cast : cut_parameter(cast, *piece);
  };
  const layer::Pair held = piece == nullptr ? layer::Pair{weight.size(0), weight.size(1)}
                                            : layer::Pair{piece->held.size[1], piece->held.size[2]};
  Tensor output =
      Products::apply(as_in_autocast(image, device).contiguous(), own(weight).contiguous(), stride,
                      held, piece == nullptr ? nullptr : piece->gradients);
  if (bias.defined()) output += own(bias).permute({2, 0, 1});
  return output;
}

LocallyConnectedImpl::LocallyConnectedImpl(const layer::LocallyConnected& numbers,
                                           const std::vector<TensorInfo>& tensors)
    : torch::nn::Module("LocallyConnected"), numbers_(numbers) {
  weight = register_parameter("weight", torch::empty(tensors.at(0).shape));
  bias = register_parameter("bias", numbers.bias ? torch::empty(tensors.at(1).shape) : Tensor(),
                            numbers.bias);
}

Tensor LocallyConnectedImpl::forward(const Tensor& input) {
  const auto& [height, width] = numbers_.image;
  TORCH_CHECK(input.dim() == 4 && input.size(1) == numbers_.in && input.size(2) == height &&
                  input.size(3) == width,
              "a locally connected layer of images of ", numbers_.in, " x ", height, " x ", width,
              " can't take ", input.sizes());
  const auto& [rows, columns] = numbers_.padding;
  Tensor image = input;
  if (rows > 0 || columns > 0) {
    image = torch::constant_pad_nd(image, {columns, columns, rows, rows});
  }
  return locally_connected(image, weight, bias, numbers_.stride);
}

void LocallyConnectedImpl::pretty_print(std::ostream& stream) const {
  stream << "convoy::model::LocallyConnected(" << numbers_.in << ", " << numbers_.out
         << ", kernel=" << numbers_.kernel[0] << "x" << numbers_.kernel[1]
         << ", image=" << numbers_.image[0] << "x" << numbers_.image[1] << ")";
}

}  // namespace convoy::model
