#include "convoy/train/placement.h"

#include "convoy/base/error.h"
#include "convoy/base/parts.h"

namespace convoy::train {

LayerPart split_by_output(const model::Node& node, std::span<const model::Shape> inputs,
                          std::span<const double> parts, int index, int partitions) {
  if (std::holds_alternative<model::layer::Opaque>(node.kind)) {
    throw UsageError("layer '" + node.name +
                     "' is a module of your own, which can't be split by its output; it can be "
                     "replicated");
  }
  const model::Shape shape = output_shape(node, inputs);
  const bool linear = std::holds_alternative<model::layer::Linear>(node.kind);
  const std::size_t dimension = linear ? shape.size() - 1 : 0;
  const Units units = units_of(shape.at(dimension), parts, index, partitions);
  LayerPart part{whole_of(node.name, shape), {}};
  part.output.begin[dimension] = units.begin;
  part.output.size[dimension] = units.size;
  part.tensors = required_parameters(node, inputs, part.output);
  return part;
}

}  // namespace convoy::train
