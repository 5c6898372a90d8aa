// Parts of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace convoy {

// This is a box of a named tensor: elements begin[d] to begin[d] + size[d] of each dimension d.
// What is laid out over machines (placement, checkpoints, servers of parameters) is said in these.
// Elements of a slice lie one after the other, the last dimension first (C order).
//
// A tensor without dimensions has one element, and one slice: the whole.
struct Slice {
  std::string tensor;
  std::vector<std::int64_t> shape;  // of the whole tensor
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> size;

  // Throws UsageError naming the tensor when the shape has more than 2^62 elements or a negative
  // extent, or when begin and size don't lie in it.
  void check() const;
  std::int64_t elements() const;
  bool whole() const;
  // "fc.weight[0:512, :] of [1000, 2048]"; "fc.weight [1000, 2048]" for a whole tensor.
  std::string text() const;

  bool operator==(const Slice&) const = default;
};

Slice whole_of(std::string tensor, std::vector<std::int64_t> shape);

// Part `index` of `parts` along one dimension; the first ones are one longer where they don't
// divide it, and parts beyond its extent are empty. REQUIRES: 0 <= index < parts, and the dimension
// is there.
Slice even_part(std::string tensor, std::vector<std::int64_t> shape, std::size_t dimension,
                std::int64_t index, std::int64_t parts);

// Gives what both hold, or nothing if that is empty. Throws UsageError when they are of one tensor
// but of different shapes; slices of different tensors share nothing.
std::optional<Slice> overlap(const Slice& a, const Slice& b);

// Copies what both slices hold; `from` and `to` have the elements of theirs, of `element` bytes
// each. Returns how many elements that was. Throws as overlap() does, and UsageError when a span
// doesn't have the size of its slice.
std::int64_t copy_overlap(const Slice& from_slice, std::span<const std::byte> from,
                          const Slice& to_slice, std::span<std::byte> to, std::size_t element);

// Says whether slices of one tensor hold every element of `whole` exactly once: nothing, or what is
// wrong ("nobody has fc.weight[0:1, :] of ...", "two hold ..."). REQUIRES: all of one tensor and
// shape, checked.
std::optional<std::string> problem_of_tiling(const Slice& whole, std::span<const Slice> slices);

}  // namespace convoy
