// Data parallelism for convolutions, model parallelism for fully connected layers (Krizhevsky
// 2014, "One weird trick for parallelizing convolutional neural networks").
#pragma once

namespace convoy::train {

class Registry;
void add_hybrid(Registry& registry);

}  // namespace convoy::train
