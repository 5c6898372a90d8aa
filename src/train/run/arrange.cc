#include "train/run/arrange.h"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::train {
namespace {

using Samples = Arrangement::Samples;

// What the ranks tell each other of their arrangements.
struct Place {
  int share = 0;
  int shares = 1;
  Samples samples = Samples::read;
  int owner = 0;
  int group_size = 0;  // 0: in no group
  int group_rank = 0;
};

std::string text_of(const Arrangement& a) {
  std::ostringstream text;
  text << a.share << ' ' << a.shares << ' ' << static_cast<int>(a.samples) << ' ' << a.owner << ' ';
  text << (a.group.valid() ? a.group.size() : 0) << ' ' << (a.group.valid() ? a.group.rank() : 0);
  return text.str();
}

Place place_from(const std::string& text) {
  Place place;
  int samples = 0;
  std::istringstream(text) >> place.share >> place.shares >> samples >> place.owner >>
      place.group_size >> place.group_rank;
  place.samples = static_cast<Samples>(samples);
  return place;
}

std::string number(std::size_t n) { return std::to_string(n); }

// What is wrong with the group of one rank, whatever the others': the end of a sentence.
std::string problem_in_group(const Place& place) {
  const bool grouped = place.group_size > 0;
  if (place.samples == Samples::handed && !grouped) return "is handed samples, but is in no group";
  if (place.samples == Samples::handed && place.group_rank == 0)
    return "is handed samples, but is the first of its group, which reads them";
  if (place.samples == Samples::read && grouped && place.group_rank > 0)
    return "reads samples, but is not the first of its group, which hands them to the others";
  if (place.samples == Samples::none && grouped)
    return "needs no samples, but is in a group, whose first rank hands them to the others";
  return "";
}

std::string problem_of_one(const std::vector<Place>& places) {
  const Place& first = places[0];
  if (first.shares < 1) return "there are " + std::to_string(first.shares) + " shares of a batch";
  if (first.owner != 0 && first.owner != -1) {
    return "rank " + std::to_string(first.owner) +
           " is to have the run folder; that can be rank 0, or none (-1)";
  }
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const Place& place = places[rank];
    const std::string who = "rank " + number(rank);
    if (place.shares != first.shares) {
      return "shares are not the same on all ranks: " + who + " has " +
             std::to_string(place.shares) + ", rank 0 has " + std::to_string(first.shares);
    }
    if (place.owner != first.owner) {
      return "the owner of the run folder is not the same on all ranks: for " + who + " it is " +
             std::to_string(place.owner) + ", for rank 0 it is " + std::to_string(first.owner);
    }
    if (place.share < 0 || place.share >= place.shares) {
      return who + " works on share " + std::to_string(place.share) + " of " +
             std::to_string(place.shares) + ", which are counted from 0";
    }
    const std::string problem = problem_in_group(place);
    if (!problem.empty()) return who + " " + problem;
  }
  return "";
}

std::string problem_of_readers(const std::vector<Place>& places) {
  std::map<int, std::vector<std::size_t>> readers;  // by share
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank].samples == Samples::read) readers[places[rank].share].push_back(rank);
  }
  for (int share = 0; share < places[0].shares; ++share) {
    const std::vector<std::size_t>& ranks = readers[share];
    if (ranks.size() == 1) continue;
    const std::string which = "share " + std::to_string(share) + " has ";
    if (ranks.empty()) return which + "no reader";
    std::string list;
    for (const std::size_t rank : ranks) list += (list.empty() ? "" : ", ") + number(rank);
    return which + number(ranks.size()) + " readers: ranks " + list;
  }
  return "";
}

// Whether all of each group are there: nobody may wait for one that isn't.
std::string problem_of_groups(const std::vector<Place>& places) {
  std::map<int, std::vector<int>> members;  // by size: how many have which rank
  for (const Place& place : places) {
    if (place.group_size == 0) continue;
    std::vector<int>& counts = members[place.group_size];
    counts.resize(static_cast<std::size_t>(place.group_size));
    ++counts[static_cast<std::size_t>(place.group_rank)];
  }
  for (const auto& [size, counts] : members) {
    const int groups = *std::max_element(counts.begin(), counts.end());
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      if (counts[rank] == groups) continue;
      return "rank " + number(rank) + " of a group of " + std::to_string(size) +
             " is missing: it has no group in its arrangement";
    }
  }
  return "";
}

// Whether what is handed to the ranks of groups is what they work on. Collective.
std::string problem_of_shares(const comm::Communicator& all, const Arrangement& own) {
  std::array<std::int64_t, 1> share{own.share};
  if (own.group.valid()) own.group.broadcast(comm::buffer_of(share), 0);
  std::string problem;
  if (share[0] != own.share) {
    problem = "rank " + std::to_string(all.rank()) + " works on share " +
              std::to_string(own.share) + ", but is handed samples of share " +
              std::to_string(share[0]);
  }
  for (const std::string& text : all.gather_text(problem)) {
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace

Arrangement arrange(const comm::World& world, const Recipe& recipe, Strategy& strategy) {
  Arrangement own = strategy.arrange(world, recipe);
  const comm::Communicator& all = world.communicator();
  std::vector<Place> places;
  for (const std::string& text : all.gather_text(text_of(own))) places.push_back(place_from(text));
  std::string problem = problem_of_one(places);
  if (problem.empty()) problem = problem_of_readers(places);
  if (problem.empty()) problem = problem_of_groups(places);
  const bool grouped = std::any_of(places.begin(), places.end(),
                                   [](const Place& place) { return place.group_size > 0; });
  if (problem.empty() && grouped) problem = problem_of_shares(all, own);
  if (problem.empty()) return own;
  throw UsageError("the strategy " + recipe.strategy + " arranges the ranks wrongly: " + problem);
}

}  // namespace convoy::train
