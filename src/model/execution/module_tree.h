#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

namespace convoy::model {

// Puts a module or a parameter where its path says ("features.0"), with plain modules above it.
void register_under(torch::nn::Module& root, std::string path,
                    const std::shared_ptr<torch::nn::Module>& module);
void register_under(torch::nn::Module& root, std::string path, const torch::Tensor& parameter);

}  // namespace convoy::model
