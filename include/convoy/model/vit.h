// The vision transformer of Dosovitskiy et al. 2020 as torchvision builds it.
#pragma once

#include <cstdint>

#include "convoy/model/blueprint.h"

namespace convoy::model {

struct VisionTransformerOptions {
  Shape image{3, 224, 224};  // height and width are multiples of `patch`
  std::int64_t classes = 1000;
  std::int64_t patch = 16;  // side of the squares that tokens are made of
  std::int64_t layers = 12, heads = 12;
  std::int64_t width = 768;    // of a token; a multiple of `heads`
  std::int64_t hidden = 3072;  // units between the two fully connected layers behind an attention
};

// A token for each patch and one for the class, positions that are learned, layers of attention and
// fully connected layers (GELU) with layer normalization before each and shortcuts around each, and
// the scores of the class's token. No dropout. 86,567,656 parameters as it stands, vit_b_16. It is
// one stage, "vit", of one layer that is not looked into and has no name: what trains networks
// whole (sync, and what is built on it) takes it. UsageError for numbers that make no sense.
//
// Names and shapes are torchvision's ("class_token", "encoder.layers.encoder_layer_0.ln_1.weight"),
// and so are the distributions of the first values. Attention is LibTorch's
// scaled_dot_product_attention.
Blueprint vision_transformer(const VisionTransformerOptions& options = {});

}  // namespace convoy::model
