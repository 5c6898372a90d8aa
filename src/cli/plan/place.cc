#include "cli/plan/place.h"

#include <algorithm>
#include <sstream>

namespace convoy::cli {

int Place::host_workers() const {
  int most = hosts.empty() ? workers : 1;
  for (const HostSlots& host : hosts) most = std::max(most, host.slots);
  return most;
}

std::vector<Place> places_of(const std::vector<int>& cores, const std::vector<std::string>& gpus,
                             int threads) {
  std::vector<Place> places;
  if (gpus.empty()) {
    const auto each = std::min(static_cast<std::size_t>(threads), cores.size());
    for (std::size_t i = 0; each > 0 && i + each <= cores.size(); i += each) {
      const auto first = cores.begin() + static_cast<std::ptrdiff_t>(i);
      places.push_back({{first, first + static_cast<std::ptrdiff_t>(each)}, ""});
    }
    return places;
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::size_t begin = i * cores.size() / gpus.size();
    const std::size_t end = std::max((i + 1) * cores.size() / gpus.size(), begin + 1);
    Place place{{}, gpus[i]};
    for (std::size_t core = begin; core < end; ++core) place.cores.push_back(cores[core]);
    places.push_back(place);
  }
  return places;
}

std::vector<std::string> gpu_names(int count, const std::string& visible) {
  std::vector<std::string> names;
  std::istringstream list(visible);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  for (auto i = static_cast<int>(names.size()); i < count; ++i) names.push_back(std::to_string(i));
  names.resize(static_cast<std::size_t>(count));
  return names;
}

}  // namespace convoy::cli
