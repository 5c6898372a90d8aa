// GoogLeNet (Szegedy et al. 2014) as torchvision builds it, and GoogLeNet-BN (Ioffe and Szegedy
// 2015) as Torch had it.
#pragma once

#include <cstdint>

#include "convoy/model/blueprint.h"

namespace convoy::model {

struct GoogLeNetOptions {
  std::int64_t classes = 1000;
  // Probability of dropping an input of the last fully connected layer; in [0, 1).
  double dropout = 0.2;
  // The same for auxiliary classifiers.
  double auxiliary_dropout = 0.7;
  // Whether it has these (Blueprint::auxiliary).
  bool auxiliary = true;
};

// Convolutions of 7 x 7 with stride 2, 1 x 1 and 3 x 3, and nine inception modules: branches with a
// convolution of 1 x 1, twice one of 1 x 1 and one of 3 x 3, and a max pool with one of 1 x 1, put
// beside one another. Each convolution is followed by batch normalization (epsilon 0.001) and ReLU
// (the paper's has none; its third branch has 5 x 5, where torchvision has 3 x 3). Max pools halve
// the image four times, and take what is left over of it (layer::MaxPool::ceil). Behind
// "inception4a" and "inception4d" auxiliary classifiers, whose losses count 0.3 each in training.
// Images of 3 x 224 x 224, or any size from 32 x 32. With 1000 classes 13,004,888 parameters,
// 6,624,904 without auxiliary classifiers. Stages: "stem", "inception3a", ..., "aux1" behind
// "inception4a", "aux2" behind "inception4d", "head".
//
// Names and shapes are torchvision's ("inception3a.branch2.0.conv.weight", "aux1.fc1.bias"), and so
// are the distributions of the first values: deviation 0.01, biases as LibTorch's.
Blueprint googlenet(const GoogLeNetOptions& options = {});

struct GoogLeNetBnOptions {
  std::int64_t classes = 1000;
  bool auxiliary = true;
};

// The network on which Kumar et al. 2017 measured: "googlenetbn" of their reference 17, the Torch
// package imagenet-multiGPU. Inception modules have two convolutions of 3 x 3 in the third branch,
// means (or maxima) over 3 x 3 in the fourth, ReLU before and behind the batch normalization of
// each convolution (epsilon 0.001), and biases. Two convolutions of 2 x 2 with stride 2 halve the
// image between them. One auxiliary classifier, behind "inception4d", without dropout, whose loss
// counts 0.3. Images of 3 x 224 x 224. With 1000 classes 19,147,888 parameters, which are 76.6 MB
// of gradients in float32, or 66.9 MB without the auxiliary classifier; the paper says 93 MB.
// Stages: "stem", "inception3a" to "inception3c", "reduction3", "inception4a" to "inception4d",
// "aux", "inception4e", "reduction4", "inception5a", "inception5b", "head".
//
// First values are LibTorch's, which were Torch's, but for the weights of batch normalizations,
// which begin at 1 (Torch drew them from 0 to 1).
Blueprint googlenet_bn(const GoogLeNetBnOptions& options = {});

}  // namespace convoy::model
