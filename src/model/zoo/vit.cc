#include "convoy/model/vit.h"

#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/model/linear.h"
#include "convoy/model/modules.h"

namespace convoy::model {
namespace {

using torch::Tensor;

std::shared_ptr<LinearImpl> unset_linear(std::int64_t in, std::int64_t out) {
  return std::make_shared<LinearImpl>(torch::nn::LinearOptions(in, out), LinearImpl::Unset());
}

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}).eps(1e-6));
}

// Tokens [N, tokens, width] to the same.
class SelfAttentionImpl : public torch::nn::Module {
 public:
  SelfAttentionImpl(std::int64_t width, std::int64_t heads) : heads_(heads) {
    in_weight_ = register_parameter("in_proj_weight", torch::empty({3 * width, width}));
    in_bias_ = register_parameter("in_proj_bias", torch::empty({3 * width}));
    out_ = register_module("out_proj", unset_linear(width, width));
  }
  Tensor forward(const Tensor& x) {
    const std::int64_t rows = x.size(0), tokens = x.size(1), width = x.size(2);
    // [3, N, heads, tokens, width / heads]
    const Tensor all = torch::linear(x, in_weight_, in_bias_)
                           .view({rows, tokens, 3, heads_, width / heads_})
                           .permute({2, 0, 3, 1, 4});
    const Tensor seen = torch::scaled_dot_product_attention(all[0], all[1], all[2]);
    return out_->forward(seen.transpose(1, 2).reshape({rows, tokens, width}));
  }

 private:
  std::int64_t heads_;
  Tensor in_weight_, in_bias_;
  std::shared_ptr<LinearImpl> out_;
};

class EncoderLayerImpl : public torch::nn::Module {
 public:
  explicit EncoderLayerImpl(const VisionTransformerOptions& o) {
    norm1_ = register_module("ln_1", layer_norm(o.width));
    attention_ =
        register_module("self_attention", std::make_shared<SelfAttentionImpl>(o.width, o.heads));
    norm2_ = register_module("ln_2", layer_norm(o.width));
    const auto both = register_module("mlp", std::make_shared<torch::nn::Module>("mlp"));
    first_ = both->register_module("0", unset_linear(o.width, o.hidden));
    second_ = both->register_module("3", unset_linear(o.hidden, o.width));
  }
  Tensor forward(const Tensor& input) {
    const Tensor x = input + attention_->forward(norm1_->forward(input));
    return x + second_->forward(torch::gelu(first_->forward(norm2_->forward(x))));
  }

 private:
  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  std::shared_ptr<SelfAttentionImpl> attention_;
  std::shared_ptr<LinearImpl> first_, second_;
};

std::int64_t patches_of(const VisionTransformerOptions& o) {
  return o.image[1] / o.patch * (o.image[2] / o.patch);
}

class VisionTransformerImpl : public torch::nn::Module {
 public:
  explicit VisionTransformerImpl(const VisionTransformerOptions& o)
      : torch::nn::Module("VisionTransformer"), patch_(o.patch) {
    token_ = register_parameter("class_token", torch::empty({1, 1, o.width}));
    const auto patches = register_module("conv_proj", std::make_shared<torch::nn::Module>());
    weight_ = patches->register_parameter("weight",
                                          torch::empty({o.width, o.image[0], o.patch, o.patch}));
    bias_ = patches->register_parameter("bias", torch::empty({o.width}));
    const auto encoder = register_module("encoder", std::make_shared<torch::nn::Module>());
    positions_ =
        encoder->register_parameter("pos_embedding", torch::empty({1, 1 + patches_of(o), o.width}));
    const auto layers = encoder->register_module("layers", std::make_shared<torch::nn::Module>());
    for (std::int64_t i = 0; i < o.layers; ++i) {
      layers_.push_back(layers->register_module("encoder_layer_" + std::to_string(i),
                                                std::make_shared<EncoderLayerImpl>(o)));
    }
    norm_ = encoder->register_module("ln", layer_norm(o.width));
    const auto heads = register_module("heads", std::make_shared<torch::nn::Module>());
    head_ = heads->register_module("head", unset_linear(o.width, o.classes));
  }
  Tensor forward(const Tensor& images) {
    const Tensor patches = torch::conv2d(images, weight_, bias_, patch_).flatten(2).transpose(1, 2);
    const Tensor token = token_.to(patches.scalar_type()).expand({patches.size(0), -1, -1});
    Tensor x = torch::cat({token, patches}, 1) + positions_;
    for (const auto& layer : layers_) x = layer->forward(x);
    return head_->forward(norm_->forward(x.select(1, 0)));
  }

 private:
  std::int64_t patch_;
  Tensor token_, weight_, bias_, positions_;
  std::vector<std::shared_ptr<EncoderLayerImpl>> layers_;
  torch::nn::LayerNorm norm_{nullptr};
  std::shared_ptr<LinearImpl> head_;
};

// What the module has, with torchvision's first values, in its order.
std::vector<TensorInfo> tensors_of_transformer(const VisionTransformerOptions& o) {
  using Rule = FirstValues::Rule;
  const FirstValues zeros{Rule::zeros, 0}, ones{Rule::ones, 0};
  const auto normal = [](double deviation) { return FirstValues{Rule::normal, deviation}; };
  const auto glorot = [](std::int64_t in, std::int64_t out) {
    return FirstValues{Rule::uniform, std::sqrt(6 / static_cast<double>(in + out))};
  };
  std::vector<TensorInfo> all;
  const auto add = [&all](const std::string& name, Shape shape, FirstValues first) {
    all.push_back({name, std::move(shape), first});
  };
  const std::int64_t d = o.width;
  add("class_token", {1, 1, d}, zeros);
  const std::int64_t seen = o.image[0] * o.patch * o.patch;
  add("conv_proj.weight", {d, o.image[0], o.patch, o.patch},
      normal(std::sqrt(1 / static_cast<double>(seen))));
  add("conv_proj.bias", {d}, zeros);
  add("encoder.pos_embedding", {1, 1 + patches_of(o), d}, normal(0.02));
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string name = "encoder.layers.encoder_layer_" + std::to_string(i) + ".";
    add(name + "ln_1.weight", {d}, ones);
    add(name + "ln_1.bias", {d}, zeros);
    add(name + "self_attention.in_proj_weight", {3 * d, d}, glorot(d, 3 * d));
    add(name + "self_attention.in_proj_bias", {3 * d}, zeros);
    add(name + "self_attention.out_proj.weight", {d, d},
        {Rule::uniform, 1 / std::sqrt(static_cast<double>(d))});
    add(name + "self_attention.out_proj.bias", {d}, zeros);
    add(name + "ln_2.weight", {d}, ones);
    add(name + "ln_2.bias", {d}, zeros);
    add(name + "mlp.0.weight", {o.hidden, d}, glorot(d, o.hidden));
    add(name + "mlp.0.bias", {o.hidden}, normal(1e-6));
    add(name + "mlp.3.weight", {d, o.hidden}, glorot(o.hidden, d));
    add(name + "mlp.3.bias", {d}, normal(1e-6));
  }
  add("encoder.ln.weight", {d}, ones);
  add("encoder.ln.bias", {d}, zeros);
  add("heads.head.weight", {o.classes, d}, zeros);
  add("heads.head.bias", {o.classes}, zeros);
  return all;
}

// For one image; scores are those of one token.
std::int64_t macs_of_transformer(const VisionTransformerOptions& o) {
  const std::int64_t patches = patches_of(o), tokens = 1 + patches, d = o.width;
  const std::int64_t layer = tokens * d * (4 * d + 2 * o.hidden) + 2 * tokens * tokens * d;
  return patches * o.image[0] * o.patch * o.patch * d + o.layers * layer + d * o.classes;
}

void check_transformer(const VisionTransformerOptions& o) {
  const auto refuse = [](const std::string& what) {
    throw UsageError("the vision transformer " + what);
  };
  if (o.classes < 1 || o.patch < 1 || o.layers < 1 || o.heads < 1 || o.width < 1 || o.hidden < 1)
    refuse("needs positive numbers for its classes, patch, layers, heads, width and hidden units");
  if (o.width % o.heads != 0) {
    refuse("can't divide tokens of " + std::to_string(o.width) + " numbers among " +
           std::to_string(o.heads) + " heads");
  }
  const bool image = o.image.size() == 3 && o.image[0] > 0 && o.image[1] > 0 && o.image[2] > 0;
  if (image && o.image[1] % o.patch == 0 && o.image[2] % o.patch == 0) return;
  refuse("can't be made for images of " + text_of(o.image) +
         ": it takes channels, height and width, these two multiples of " +
         std::to_string(o.patch));
}

}  // namespace

Blueprint vision_transformer(const VisionTransformerOptions& options) {
  check_transformer(options);
  layer::Opaque whole;
  whole.type = "VisionTransformer";
  whole.tensors = tensors_of_transformer(options);
  whole.output = [options](const Shape& image) {
    if (image == options.image) return Shape{options.classes};
    throw UsageError("the vision transformer is made for images of " + text_of(options.image) +
                     ", gets " + text_of(image));
  };
  whole.macs = [options](const Shape&) { return macs_of_transformer(options); };
  whole.make = [options] {
    return std::make_shared<const UserModule>(
        UserModule{torch::nn::AnyModule(std::make_shared<VisionTransformerImpl>(options))});
  };
  Blueprint net{"VisionTransformer", {options.image}, {}};
  net.stages.push_back({"vit", {"input"}, {{"", std::move(whole), {"input"}, nullptr}}, {""}});
  return net;
}

}  // namespace convoy::model
