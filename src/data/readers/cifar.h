// The binary version of CIFAR, from bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "data/readers/memory_dataset.h"

namespace convoy::data {

// Appends the examples of one file. Throws UsageError naming it.
void append_cifar(CifarKind kind, std::span<const std::byte> file, const std::string& name,
                  Examples& examples);

}  // namespace convoy::data
