#include "convoy/base/slice.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/even_share.h"

namespace convoy {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 62;
constexpr std::size_t kMostCut = 6;

std::string list(const std::vector<std::int64_t>& numbers) {
  std::string text = "[";
  for (std::size_t d = 0; d < numbers.size(); ++d)
    text += (d == 0 ? "" : ", ") + std::to_string(numbers[d]);
  return text + "]";
}

// What is left of `slice` without `hole`, which lies in it, as slices that don't overlap.
void cut_out(const Slice& slice, const Slice& hole, std::vector<Slice>& rest) {
  Slice left = slice;
  for (std::size_t d = 0; d < slice.shape.size(); ++d) {
    const std::int64_t before = hole.begin[d] - left.begin[d];
    const std::int64_t after = left.begin[d] + left.size[d] - hole.begin[d] - hole.size[d];
    if (before > 0) {
      rest.push_back(left);
      rest.back().size[d] = before;
    }
    if (after > 0) {
      rest.push_back(left);
      rest.back().begin[d] = hole.begin[d] + hole.size[d];
      rest.back().size[d] = after;
    }
    left.begin[d] = hole.begin[d];
    left.size[d] = hole.size[d];
  }
}

// The place of element `at` of the tensor among those of `slice`, which holds it.
std::int64_t offset_in(const Slice& slice, const std::vector<std::int64_t>& at) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < slice.size.size(); ++d)
    offset = offset * slice.size[d] + (at[d] - slice.begin[d]);
  return offset;
}

void check_bytes(const Slice& slice, std::size_t bytes, std::size_t element) {
  slice.check();
  std::size_t needed = 0;
  const bool fits =
      !__builtin_mul_overflow(static_cast<std::size_t>(slice.elements()), element, &needed);
  if (fits && bytes == needed) return;
  throw UsageError(slice.text() + " has " + std::to_string(slice.elements()) + " elements of " +
                   std::to_string(element) + " bytes, not " + std::to_string(bytes) + " bytes");
}

// As problem_of_tiling(), one after the other.
std::optional<std::string> problem_of_few(const Slice& whole, std::span<const Slice> slices) {
  std::vector<Slice> left;
  if (whole.elements() > 0) left.push_back(whole);
  for (const Slice& slice : slices) {
    if (slice.elements() == 0) continue;
    std::int64_t found = 0;
    std::vector<Slice> rest;
    for (const Slice& piece : left) {
      const std::optional<Slice> both = overlap(piece, slice);
      if (!both) {
        rest.push_back(piece);
        continue;
      }
      found += both->elements();
      cut_out(piece, *both, rest);
    }
    if (found != slice.elements()) return "two hold elements of " + slice.text();
    left.swap(rest);
  }
  if (!left.empty()) return "nobody holds " + left.front().text();
  return std::nullopt;
}

// Slices hold every element once if, and only if, the corners of all of them (with alternating
// signs) add up to those of the whole: that sum is the difference, along each dimension in turn, of
// how often elements are held. Takes the time to sort them. Nothing where more than kMostCut
// dimensions are cut: a slice has 2^d corners.
std::optional<bool> corners_cancel(const Slice& whole, std::span<const Slice> slices) {
  // Of each dimension in which something is cut, the places where slices begin and end.
  std::vector<std::pair<std::size_t, std::vector<std::int64_t>>> cuts;
  std::uint64_t places = 1;
  for (std::size_t d = 0; d < whole.shape.size(); ++d) {
    std::vector<std::int64_t> at{0, whole.shape[d]};
    for (const Slice& slice : slices) {
      at.push_back(slice.begin[d]);
      at.push_back(slice.begin[d] + slice.size[d]);
    }
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    if (at.size() == 2) continue;
    if (cuts.size() == kMostCut || __builtin_mul_overflow(places, at.size(), &places))
      return std::nullopt;
    cuts.emplace_back(d, std::move(at));
  }
  std::vector<std::pair<std::uint64_t, std::int8_t>> all;  // place, sign
  all.reserve((slices.size() + 1) << cuts.size());
  const auto add = [&](const Slice& slice, std::int8_t sign) {
    if (slice.elements() == 0) return;
    std::vector<std::pair<std::uint64_t, std::int8_t>> own{{0, sign}};
    for (const auto& [d, at] : cuts) {
      const auto place_of = [&values = at](std::int64_t value) {
        return static_cast<std::uint64_t>(std::lower_bound(values.begin(), values.end(), value) -
                                          values.begin());
      };
      const std::uint64_t begin = place_of(slice.begin[d]);
      const std::uint64_t end = place_of(slice.begin[d] + slice.size[d]);
      const std::size_t half = own.size();
      for (std::size_t i = 0; i < half; ++i) {
        const auto [place, own_sign] = own[i];
        own[i].first = place * at.size() + begin;
        own.emplace_back(place * at.size() + end, static_cast<std::int8_t>(-own_sign));
      }
    }
    all.insert(all.end(), own.begin(), own.end());
  };
  add(whole, -1);
  for (const Slice& slice : slices) add(slice, 1);
  std::sort(all.begin(), all.end());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum += all[i].second;
    if (i + 1 < all.size() && all[i + 1].first == all[i].first) continue;
    if (sum != 0) return false;
  }
  return true;
}

}  // namespace

void Slice::check() const {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && elements > kMostElements / extent))
      throw UsageError("tensor '" + tensor + "' can't have the shape " + list(shape));
    elements *= std::max<std::int64_t>(extent, 1);
  }
  const bool right = begin.size() == shape.size() && size.size() == shape.size();
  for (std::size_t d = 0; d < shape.size() && right; ++d) {
    if (begin[d] >= 0 && size[d] >= 0 && begin[d] <= shape[d] && size[d] <= shape[d] - begin[d])
      continue;
    throw UsageError("a slice of tensor '" + tensor + "' of " + list(shape) + " can't begin at " +
                     list(begin) + " with the size " + list(size));
  }
  if (!right) {
    throw UsageError("a slice of tensor '" + tensor +
                     "' needs a begin and a size for each of its " + std::to_string(shape.size()) +
                     " dimensions");
  }
}

std::int64_t Slice::elements() const {
  std::int64_t elements = 1;
  for (const std::int64_t extent : size) elements *= extent;
  return elements;
}

bool Slice::whole() const { return size == shape; }

std::string Slice::text() const {
  if (whole()) return tensor + " " + list(shape);
  std::string text = tensor + "[";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    text += d == 0 ? "" : ", ";
    text += size[d] == shape[d]
                ? ":"
                : std::to_string(begin[d]) + ":" + std::to_string(begin[d] + size[d]);
  }
  return text + "] of " + list(shape);
}

Slice whole_of(std::string tensor, std::vector<std::int64_t> shape) {
  std::vector<std::int64_t> begin(shape.size(), 0);
  std::vector<std::int64_t> size = shape;
  return {std::move(tensor), std::move(shape), std::move(begin), std::move(size)};
}

Slice even_part(std::string tensor, std::vector<std::int64_t> shape, std::size_t dimension,
                std::int64_t index, std::int64_t parts) {
  assert(dimension < shape.size() && index >= 0 && index < parts);
  Slice part = whole_of(std::move(tensor), std::move(shape));
  const auto share = evenly(part.shape[dimension], parts, index);
  part.begin[dimension] = share.begin;
  part.size[dimension] = share.size;
  return part;
}

std::optional<Slice> overlap(const Slice& a, const Slice& b) {
  if (a.tensor != b.tensor) return std::nullopt;
  if (a.shape != b.shape) {
    throw UsageError("tensor '" + a.tensor + "' is " + list(a.shape) + " here and " +
                     list(b.shape) + " there");
  }
  Slice both = a;
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    both.begin[d] = std::max(a.begin[d], b.begin[d]);
    both.size[d] = std::min(a.begin[d] + a.size[d], b.begin[d] + b.size[d]) - both.begin[d];
    if (both.size[d] <= 0) return std::nullopt;
  }
  return both;
}

std::int64_t copy_overlap(const Slice& from_slice, std::span<const std::byte> from,
                          const Slice& to_slice, std::span<std::byte> to, std::size_t element) {
  check_bytes(from_slice, from.size(), element);
  check_bytes(to_slice, to.size(), element);
  const std::optional<Slice> both = overlap(from_slice, to_slice);
  if (!both) return 0;
  // Dimensions at the end that all three have in full are one run with the one before them.
  std::size_t outer = both->shape.size();
  std::int64_t run = 1;
  while (outer > 0) {
    --outer;
    run *= both->size[outer];
    if (both->size[outer] != from_slice.size[outer] || both->size[outer] != to_slice.size[outer])
      break;
  }
  const std::size_t bytes = static_cast<std::size_t>(run) * element;
  std::vector<std::int64_t> at = both->begin;
  while (true) {
    std::memcpy(to.data() + static_cast<std::size_t>(offset_in(to_slice, at)) * element,
                from.data() + static_cast<std::size_t>(offset_in(from_slice, at)) * element, bytes);
    std::size_t d = outer;
    for (; d > 0; --d) {
      if (++at[d - 1] < both->begin[d - 1] + both->size[d - 1]) break;
      at[d - 1] = both->begin[d - 1];
    }
    if (d == 0) return both->elements();
  }
}

std::optional<std::string> problem_of_tiling(const Slice& whole, std::span<const Slice> slices) {
  const std::optional<bool> tile = corners_cancel(whole, slices);
  if (tile && *tile) return std::nullopt;
  // Comparing each with all before it tells where they don't; it takes the square of their number.
  constexpr std::size_t kFew = 32;
  if (slices.size() <= kFew) return problem_of_few(whole, slices);
  const std::string all = "its " + std::to_string(slices.size()) + " slices";
  if (tile) return all + " don't hold every element of " + whole.text() + " once";
  return all + " cut " + whole.text() + " in more than " + std::to_string(kMostCut) +
         " dimensions, or in too many places to compare them";
}

}  // namespace convoy
