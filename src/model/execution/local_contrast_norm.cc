#include "model/execution/local_contrast_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/execution/full_precision.h"

namespace convoy::model {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// w[p] along one dimension; all of w is the product of two of these.
double weight_at(std::int64_t p, double deviation) {
  if (deviation == 0) return 1;
  const double distance = static_cast<double>(p) / deviation;
  return std::exp(-distance * distance / 2);
}

// The mean over channels and window around each position, and its transpose. Sums of shifted maps:
// a convolution may round as bfloat16 does (TF32, autocast), or compute by transforms, whose small
// errors can make a mean of squares negative.
class Mean {
 public:
  Mean(const layer::LocalContrastNorm& norm, const Tensor& images) : norm_(norm) {
    const Tensor one = torch::ones({1, 1, images.size(2), images.size(3)}, images.options());
    total_ = weighted_sum(one) * images.size(1);
  }

  // [N, 1, height, width]
  Tensor operator()(const Tensor& images) const {
    return weighted_sum(images.sum(1, /*keepdim=*/true)) / total_;
  }
  // What each element gets of the gradient of a mean: the same in all channels. Windows are
  // symmetric.
  Tensor backward(const Tensor& gradient) const { return weighted_sum(gradient / total_); }

 private:
  Tensor weighted_sum(const Tensor& maps) const { return sum_along(2, sum_along(3, maps)); }

  Tensor sum_along(std::int64_t dimension, const Tensor& maps) const {
    const std::int64_t extent = maps.size(dimension);
    const std::int64_t half = norm_.window[static_cast<std::size_t>(dimension - 2)] / 2;
    Tensor sum = maps.clone();
    for (std::int64_t p = 1; p <= std::min(half, extent - 1); ++p) {
      const Tensor after = maps.narrow(dimension, p, extent - p);
      const Tensor before = maps.narrow(dimension, 0, extent - p);
      const double weight = weight_at(p, norm_.deviation);
      sum.narrow(dimension, 0, extent - p).add_(after, weight);
      sum.narrow(dimension, p, extent - p).add_(before, weight);
    }
    return sum;
  }

  layer::LocalContrastNorm norm_;
  Tensor total_;
};

// What sigma has to be above to be divided by, for each sample.
Tensor floor_of(const Tensor& sigma, const layer::LocalContrastNorm& norm) {
  if (!norm.mean_as_least) return torch::full({1}, norm.least, sigma.options());
  return sigma.mean({2, 3}, /*keepdim=*/true).clamp_min(norm.least);
}

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input,
                        const layer::LocalContrastNorm& norm) {
    const Mean mean(norm, input);
    const Tensor centered = input - mean(input);
    const Tensor sigma = mean(centered.square()).sqrt_();
    const Tensor output = centered / torch::maximum(sigma, floor_of(sigma, norm));
    context->saved_data["window"] = std::vector<std::int64_t>{norm.window[0], norm.window[1]};
    context->saved_data["deviation"] = norm.deviation;
    context->saved_data["least"] = norm.least;
    context->saved_data["mean_as_least"] = norm.mean_as_least;
    context->save_for_backward({output, sigma});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    // To autograd sigma would be a constant.
    TORCH_CHECK(!torch::GradMode::is_enabled(),
                "a local contrast normalization has no second derivative: no create_graph");
    const variable_list saved = context->get_saved_variables();
    const Tensor &output = saved[0], &sigma = saved[1];
    const auto window = context->saved_data["window"].toIntVector();
    const layer::LocalContrastNorm norm{{window[0], window[1]},
                                        context->saved_data["deviation"].toDouble(),
                                        context->saved_data["least"].toDouble(),
                                        context->saved_data["mean_as_least"].toBool()};
    const Mean mean(norm, output);
    const Tensor floor = floor_of(sigma, norm);
    const Tensor divisor = torch::maximum(sigma, floor);
    const Tensor direct = gradients[0] / divisor;  // of the centered values
    const Tensor of_divisor = -(direct * output).sum(1, /*keepdim=*/true);
    const Tensor above = sigma > floor;
    Tensor of_sigma = of_divisor * above;
    if (norm.mean_as_least) {
      const Tensor of_floor =
          (of_divisor * above.logical_not()).sum({2, 3}, /*keepdim=*/true) * (floor > norm.least);
      of_sigma = of_sigma + of_floor / (sigma.size(2) * sigma.size(3));
    }
    // Where sigma is 0, so are all values it is made of, and what it changes.
    const Tensor of_square = torch::where(sigma > 0, of_sigma / (2 * sigma), 0);
    const Tensor of_centered = direct + 2 * (output * divisor) * mean.backward(of_square);
    const Tensor of_mean = of_centered.sum(1, /*keepdim=*/true);
    return {of_centered - mean.backward(of_mean), Tensor()};
  }
};

}  // namespace

Tensor local_contrast_norm(const Tensor& input, const layer::LocalContrastNorm& norm) {
  const FullPrecision full;
  return NormFunction::apply(full(input), norm);
}

}  // namespace convoy::model
