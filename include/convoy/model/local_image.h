// The network for images of Dean et al. 2012 (Large Scale Distributed Deep Networks, section 5),
// whose filters are local and share no weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/model/blueprint.h"

namespace convoy::model {

// Sizes of windows are their sides, here and below.
struct LocalStage {
  std::int64_t maps = 8;  // filters of each position
  std::int64_t stride = 1;
  std::int64_t pool = 8, pool_stride = 1;
};

struct LocalImageOptions {
  Shape image{3, 100, 100};  // that it is made for, and takes no others than
  std::int64_t classes = 21000;
  std::int64_t filter = 10;
  std::int64_t norm = 5;                                                       // odd
  std::vector<LocalStage> stages{{8, 1, 8, 1}, {8, 1, 8, 1}, {8, 1, 20, 13}};  // that of "80M"
};

// Gives stages "local1", "local2", ..., each of a locally connected layer ("filter1"), an L2 pool
// ("pool1") and a local contrast normalization ("norm1"; Gaussian weights with a deviation of a
// quarter of the window, and c = 0.01), and "head", a fully connected layer ("fc") of scores for as
// many logistic regressions (the task one_vs_all). No padding. First weights of filters: Caffe's
// xavier.
//
// UsageError for numbers that are not positive, an image without three of them, and naming stage
// and layer where a window is larger than what it slides over.
Blueprint local_image(const LocalImageOptions& options = {});

// Gives the paper's three sizes: 10 x 10 filters of images of 3 x 100 x 100 in three stages with 8,
// 16 and 36 maps, 21,000 classes. It says nothing of pools and strides, which are chosen here so
// that the numbers of parameters come close.
//
//   name     maps   pools        their strides   parameters      the paper
//   "80M"       8   8, 8, 20     1, 1, 13           81,000,896    80 million
//   "330M"     16   3, 3, 18     1, 1, 17          331,178,472   330 million
//   "1.7B"     36   3, 3, 13     1, 1, 4         1,706,721,312   1.7 billion
//
// UsageError naming these for another name.
LocalImageOptions local_image_preset(std::string_view name);

}  // namespace convoy::model
