// LeNet in the form that Caffe made the usual one for MNIST.
#pragma once

#include "convoy/model/blueprint.h"

namespace convoy::model {

// conv1 1->20 5x5, max pool 2, conv2 20->50 5x5, max pool 2, fc1 800->500, ReLU, fc2 500->classes;
// images of 1 x 28 x 28. 431,080 parameters with 10 classes. A stage for each of the four.
//
// First values are Caffe's "xavier": weights uniform in +-sqrt(3 / fan_in), biases zero.
Blueprint lenet(std::int64_t classes = 10);

}  // namespace convoy::model
