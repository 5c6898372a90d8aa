#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

namespace convoy::model {

// Puts a module where its path says ("features.0"), with plain modules above it.
void register_under(torch::nn::Module& root, const std::string& path,
                    const std::shared_ptr<torch::nn::Module>& module);

}  // namespace convoy::model
