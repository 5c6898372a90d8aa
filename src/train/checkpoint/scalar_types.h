// Types of elements as Torch and as safetensors files name them.
#pragma once

#include <torch/torch.h>

#include <string>

namespace convoy::train {

// Throws UsageError naming the tensor for a type that the other side doesn't have.
const char* type_name_of(at::ScalarType type, const std::string& tensor);
at::ScalarType scalar_type_of(const std::string& type, const std::string& tensor);

}  // namespace convoy::train
