#include "data/store/need.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "data/store/region.h"

namespace convoy::data {
namespace {

constexpr std::size_t kPagesPerMember = 8;
// A part is the sum of many lengths drawn at random: this many standard deviations above the mean.
constexpr double kDeviations = 4;
// By number: a slot, and its place in the order of an epoch. By slot: a number and a place, twice
// while they change, and what is left of it.
constexpr std::uint64_t kPerRecord = 4 + 8, kPerHeld = 48;
// Where nothing moves, by slot: a number and a place.
constexpr std::uint64_t kPerUnmoved = 12;

struct Lengths {
  double count = 0, mean = 0, deviation = 0;
  std::uint64_t total = 0, largest = 0;
};

Lengths lengths_of(const LoadableDataset& source) {
  Lengths all;
  double squares = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::uint64_t length = source.length(i);
    all.total += length;
    all.largest = std::max(all.largest, length);
    squares += static_cast<double>(length) * static_cast<double>(length);
  }
  all.count = static_cast<double>(source.size());
  if (all.count == 0) return all;
  all.mean = static_cast<double>(all.total) / all.count;
  all.deviation = std::sqrt(std::max(0.0, squares / all.count - all.mean * all.mean));
  return all;
}

StoreNeed need_of(const Lengths& lengths, int world, int groups, std::size_t segment) {
  StoreNeed need;
  need.groups = groups;
  need.members = world / groups;
  const double held = std::ceil(lengths.count / need.members);
  need.part = lengths.total;
  if (need.members > 1) {
    const double part = held * lengths.mean + kDeviations * std::sqrt(held) * lengths.deviation +
                        static_cast<double>(lengths.largest);
    need.part = std::min(lengths.total, static_cast<std::uint64_t>(part));
    need.segments = 2 * segment_for(segment, need.members);
  }
  need.tables = kPerRecord * static_cast<std::uint64_t>(lengths.count) +
                kPerHeld * static_cast<std::uint64_t>(held);
  return need;
}

std::string text_of(const StoreNeed& need) {
  if (need.placement == Placement::host)
    return format_bytes(need.part) + " of its host's copy and " + format_bytes(need.tables) +
           " of tables";
  return format_bytes(need.part) + " of records, " + format_bytes(need.segments) +
         " to shuffle and " + format_bytes(need.tables) + " of tables";
}

}  // namespace

std::size_t segment_for(std::size_t wanted, int members) {
  return std::max(wanted, kPagesPerMember * static_cast<std::size_t>(members) * Region::page());
}

StoreNeed store_need(const LoadableDataset& source, int world, int groups, std::size_t segment) {
  if (groups < 1 || groups > world || world % groups != 0) {
    throw UsageError(std::to_string(world) + " ranks can't form " + std::to_string(groups) +
                     " groups of one size: the number of groups has to divide the number of ranks");
  }
  return need_of(lengths_of(source), world, groups, segment);
}

StoreNeed most_groups(const LoadableDataset& source, int world, std::size_t segment,
                      std::uint64_t memory) {
  const Lengths lengths = lengths_of(source);
  for (int groups = world; groups > 1; --groups) {
    if (world % groups != 0) continue;
    const StoreNeed need = need_of(lengths, world, groups, segment);
    if (need.total() <= memory) return need;
  }
  return need_of(lengths, world, 1, segment);
}

StoreNeed copy_need(const LoadableDataset& source, int world, int on_host) {
  StoreNeed need = files_need(source, world);
  need.placement = Placement::host;
  const auto ranks = static_cast<std::uint64_t>(on_host);
  need.part = (source.bytes({0, source.size()}) + ranks - 1) / ranks;
  need.tables += kPerUnmoved * source.size();
  return need;
}

StoreNeed files_need(const LoadableDataset& source, int world) {
  StoreNeed need;
  need.placement = Placement::files;
  need.groups = world;
  need.tables = kPerRecord * source.size();
  return need;
}

void check_memory(const StoreNeed& need, int world, std::uint64_t memory, bool limited) {
  if (need.total() <= memory) return;
  std::string more;
  if (need.placement == Placement::host)
    more = "; a part for each rank, in place of a copy for each host, needs less";
  else if (need.groups > 1)
    more = "; fewer groups than " + std::to_string(need.groups) + " need less";
  throw UsageError("a rank of " + std::to_string(world) + " needs " + format_bytes(need.total()) +
                   " for the data (" + text_of(need) + "), but may use " + format_bytes(memory) +
                   (limited ? ", as the limit of memory and what is free on its host allow"
                            : ", its part of three quarters of what is free on its host; "
                              "data.store_memory can allow more") +
                   more +
                   "; more ranks on more hosts need less each, and reading from files needs none");
}

}  // namespace convoy::data
