#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "convoy/model/blueprint.h"

namespace convoy::model {

// Puts a module or a parameter where its path says ("features.0"), with plain modules above it. Of
// a module without a path what it has is put into the root itself.
void register_under(torch::nn::Module& root, std::string path,
                    const std::shared_ptr<torch::nn::Module>& module);
void register_under(torch::nn::Module& root, std::string path, const torch::Tensor& parameter);

// What a copy of a module doesn't have of it: which parameters are trained, and which modules are
// in training mode. Both have the same modules.
void copy_modes(const torch::nn::Module& from, torch::nn::Module& to);

// Throws UsageError where layers share a tensor, of which copies would have one each.
void check_apart(const Blueprint& blueprint);

}  // namespace convoy::model
