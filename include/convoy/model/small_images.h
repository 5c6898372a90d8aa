// Networks for small images: of the sizes on which Perrone et al. (Optimal Mini-Batch Size
// Selection for Fast Gradient Descent, Table 1) measured, and a small AlexNet.
#pragma once

#include <cstdint>

#include "convoy/model/blueprint.h"

namespace convoy::model {

// The paper gives the parameters and layers of its networks, with 10 classes, and nothing else;
// what that leaves open is chosen here. ReLU follows each layer with parameters but the last (of
// the ResNet, where its blocks have it). First values: convolutions Kaiming normal by fan-out,
// fully connected layers LibTorch's default.

// Gray images of 28 x 28: conv1 1->16w of 5 x 5, max pool of 3 x 3 with stride 2, conv2 16w->32w of
// 5 x 5, the same pool, fc1 288w->100w, fc2 100w->classes. 43,158, 169,506 and 671,802 parameters
// for w = 1, 2, 4, the paper's small, medium and large LeNet for MNIST. Stages: each of the four.
// UsageError for w < 1.
Blueprint lenet_of_width(std::int64_t w, std::int64_t classes = 10);

// Color images of 32 x 32: conv1 3->64 of 3 x 3, max pool of 3 x 3 with stride 3, conv2 64->128 of
// 3 x 3, max pool of 2 x 2, fc1 2048->200, fc2 200->classes. 487,458 parameters, the paper's LeNet
// for CIFAR. Stages as above.
Blueprint lenet_for_color(std::int64_t classes = 10);

// Color images of 32 x 32: convolutions of 3 x 3 with biases and no normalization, in five groups
// with a max pool of 2 x 2 after each, and two fully connected layers, 200 and classes. Nine layers
// (64, 64 | 64, 64 | 128 | 256 | 256): 1,125,090 parameters; eleven (64, 64 | 64, 64 | 128, 128 |
// 256, 256 | 256): 1,862,754. The paper's VGG, medium and large. Stages: "group1" to "group5",
// "fc1", "fc2". UsageError for other numbers of layers.
Blueprint small_vgg(int layers, std::int64_t classes = 10);

// Color images of 32 x 32: the ResNet of He et al. 2015, section 4.2. conv1 3->16 of 3 x 3, three
// groups of (layers - 2) / 6 basic blocks with 16, 32 and 64 channels, of which the first in the
// second and third group halves height and width, a mean over positions, and fc 64->classes, with a
// batch normalization after each convolution. Shortcuts have no parameters (option A,
// layer::Subsample); convolutions have biases. 20 layers: 270,410 parameters, the paper's ResNet;
// without the 688 biases of convolutions, 269,722, He et al.'s. Names as in ResNetOptions'
// networks, and so is zero_init_residual. Stages: "stem", each block ("layer1.0"), "head".
// UsageError unless layers is 6 n + 2 for an n from 1.
Blueprint small_resnet(int layers, std::int64_t classes = 10, bool zero_init_residual = false);

// Color images of 32 x 32: AlexNet in one tower (Krizhevsky 2014) scaled to them. conv1 3->32 of 5
// x 5 with stride 2, conv2 32->64, conv3 64->96, conv4 96->96 and conv5 96->64 of 3 x 3, max pools
// of 3 x 3 with stride 2 after the first two, and fully connected layers of
// 576->hidden->hidden->classes with dropout before the first two. With 512 hidden units 777,930
// parameters, 72% of them in fully connected layers, and 3.8 M multiply-adds for an image, 85% of
// them in convolutions. Stages: "conv1" to "conv5", "fc6" to "fc8"; layers are called as stages.
struct SmallOneTowerOptions {
  std::int64_t classes = 10;
  double dropout = 0.5;  // as in AlexNetOptions
  std::int64_t hidden = 512;
};
Blueprint small_one_tower(const SmallOneTowerOptions& options = {});

}  // namespace convoy::model
