#include "train/strategies/partitioned/route.h"

#include <algorithm>
#include <numeric>

namespace convoy::train {
namespace {

using model::PartitionedValue;

std::vector<std::int64_t> shape_of(std::int64_t rows, const Slice& part) {
  std::vector<std::int64_t> shape{rows};
  shape.insert(shape.end(), part.size.begin(), part.size.end());
  return shape;
}

Slice all_of(const PartitionedValue& value) { return whole_of(value.name, value.shape); }

std::int64_t elements_of(const std::vector<Box>& boxes) {
  std::int64_t sum = 0;
  for (const Box& box : boxes) sum += box.elements();
  return sum;
}

Route empty_route(std::size_t ranks) {
  Route route;
  route.out.resize(ranks);
  route.in.resize(ranks);
  return route;
}

const Slice& tile_of(const PartitionedValue& value, int rank) {
  return value.tiles[static_cast<std::size_t>(rank)];
}

}  // namespace

std::int64_t Box::elements() const {
  if (size.empty()) return 0;
  return std::accumulate(size.begin(), size.end(), std::int64_t{1}, std::multiplies<>());
}

Box overlap(const Box& a, const Box& b) {
  if (a.empty() || b.empty()) return {};
  Box both;
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    const std::int64_t begin = std::max(a.begin[d], b.begin[d]);
    const std::int64_t end = std::min(a.begin[d] + a.size[d], b.begin[d] + b.size[d]);
    if (end <= begin) return {};
    both.begin.push_back(begin);
    both.size.push_back(end - begin);
  }
  return both;
}

Box within(const Box& outer, Box inner) {
  for (std::size_t d = 0; d < inner.begin.size(); ++d) inner.begin[d] -= outer.begin[d];
  return inner;
}

std::int64_t Route::sent() const { return elements_of(out); }
std::int64_t Route::received() const { return elements_of(in); }

std::int64_t Rows::all() const { return std::accumulate(of.begin(), of.end(), std::int64_t{0}); }
std::int64_t Rows::before(int rank) const {
  return std::accumulate(of.begin(), of.begin() + rank, std::int64_t{0});
}

Box box_of(std::int64_t first, std::int64_t rows, const Slice& part, const Slice& outer) {
  if (rows == 0 || part.elements() == 0) return {};
  Box box{{first}, {rows}};
  for (std::size_t d = 0; d < part.size.size(); ++d) {
    box.begin.push_back(part.begin[d] - outer.begin[d]);
    box.size.push_back(part.size[d]);
  }
  return box;
}

Route route_of_input(const PartitionedValue& value, const Rows& rows, int me) {
  Route route = empty_route(rows.of.size());
  const std::int64_t own = rows.of[static_cast<std::size_t>(me)];
  const Slice whole = all_of(value);
  const Slice& needed = value.needed[static_cast<std::size_t>(me)];
  route.held = shape_of(own, whole);
  route.wanted = shape_of(rows.all(), needed);
  for (int q = 0; q < static_cast<int>(rows.of.size()); ++q) {
    const auto i = static_cast<std::size_t>(q);
    Box out = box_of(0, own, value.needed[i], whole);
    Box in = box_of(rows.before(q), rows.of[i], needed, needed);
    (q == me ? route.kept_held : route.out[i]) = std::move(out);
    (q == me ? route.kept_wanted : route.in[i]) = std::move(in);
  }
  return route;
}

Route route_between(const PartitionedValue& value, std::int64_t rows, int me) {
  const std::size_t ranks = value.tiles.size();
  Route route = empty_route(ranks);
  const Slice& tile = tile_of(value, me);
  const Slice& needed = value.needed[static_cast<std::size_t>(me)];
  route.held = shape_of(rows, tile);
  route.wanted = shape_of(rows, needed);
  for (int q = 0; q < static_cast<int>(ranks); ++q) {
    if (q == me) continue;
    const auto i = static_cast<std::size_t>(q);
    route.out[i] = box_of(0, rows, value.piece(me, q), tile);
    route.in[i] = box_of(0, rows, value.piece(q, me), needed);
  }
  if (const auto own = overlap(tile, needed)) {
    route.kept_held = box_of(0, rows, *own, tile);
    route.kept_wanted = box_of(0, rows, *own, needed);
  }
  return route;
}

Route route_home(const PartitionedValue& value, const Rows& rows, int me) {
  Route route = empty_route(rows.of.size());
  const std::int64_t own = rows.of[static_cast<std::size_t>(me)];
  const Slice whole = all_of(value);
  const Slice& tile = tile_of(value, me);
  route.held = shape_of(rows.all(), tile);
  route.wanted = shape_of(own, whole);
  for (int q = 0; q < static_cast<int>(rows.of.size()); ++q) {
    const auto i = static_cast<std::size_t>(q);
    if (q != me && value.whole) continue;
    Box out = box_of(rows.before(q), rows.of[i], tile, tile);
    Box in = box_of(0, own, tile_of(value, q), whole);
    (q == me ? route.kept_held : route.out[i]) = std::move(out);
    (q == me ? route.kept_wanted : route.in[i]) = std::move(in);
  }
  return route;
}

Route route_to_all(const PartitionedValue& value, std::int64_t rows, int me) {
  const std::size_t ranks = value.tiles.size();
  Route route = empty_route(ranks);
  const Slice whole = all_of(value);
  const Slice& tile = tile_of(value, me);
  route.held = shape_of(rows, tile);
  route.wanted = shape_of(rows, whole);
  for (int q = 0; q < static_cast<int>(ranks); ++q) {
    const auto i = static_cast<std::size_t>(q);
    if (q != me && value.whole) continue;
    Box out = box_of(0, rows, tile, tile);
    Box in = box_of(0, rows, tile_of(value, q), whole);
    (q == me ? route.kept_held : route.out[i]) = std::move(out);
    (q == me ? route.kept_wanted : route.in[i]) = std::move(in);
  }
  return route;
}

}  // namespace convoy::train
