#include <cstddef>
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "data/readers/cifar.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy::data;
  for (const CifarKind kind : {CifarKind::cifar10, CifarKind::cifar100}) {
    try {
      Examples examples;
      append_cifar(kind, std::as_bytes(std::span(data, size)), "file", examples);
    } catch (const convoy::UsageError&) {
      // Refused, as it should be.
    }
  }
  return 0;
}
