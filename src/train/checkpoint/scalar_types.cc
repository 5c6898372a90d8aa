#include "train/checkpoint/scalar_types.h"

#include "convoy/base/error.h"

namespace convoy::train {
namespace {

struct TypeName {
  at::ScalarType type;
  const char* name;
};
constexpr TypeName kTypes[] = {{at::kDouble, "F64"},    {at::kFloat, "F32"}, {at::kHalf, "F16"},
                               {at::kBFloat16, "BF16"}, {at::kLong, "I64"},  {at::kInt, "I32"},
                               {at::kShort, "I16"},     {at::kChar, "I8"},   {at::kByte, "U8"},
                               {at::kBool, "BOOL"}};

}  // namespace

const char* type_name_of(at::ScalarType type, const std::string& tensor) {
  for (const TypeName& entry : kTypes) {
    if (entry.type == type) return entry.name;
  }
  throw UsageError("tensor '" + tensor +
                   "' has a type that safetensors files can't hold: " + c10::toString(type));
}

at::ScalarType scalar_type_of(const std::string& type, const std::string& tensor) {
  for (const TypeName& entry : kTypes) {
    if (type == entry.name) return entry.type;
  }
  throw UsageError("tensor '" + tensor + "' has the type " + type + ", which is not supported");
}

}  // namespace convoy::train
