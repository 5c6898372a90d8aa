// The network of a simulation: hosts, switches and links.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace convoy::simulate {

enum class Topology { fat_tree, torus };

struct Network {
  Topology topology = Topology::fat_tree;
  int ranks = 0;
  double bytes_per_second = 0;  // of a link, each way
  double latency_s = 0;         // of a link
  // Of the fat tree: two levels of switches, `leaf` hosts at each one of the lower level, which has
  // a link to each of the `spines`.
  int leaf = 8;
  int spines = 8;
  std::vector<unsigned long> torus;  // its hosts in each dimension
  // Each link's rate is up to this part lower, and its latency up to this part higher, at random.
  double spread = 0;
  bool shuffled = true;  // ranks on hosts at random; otherwise in the order of hosts
  std::uint64_t seed = 0;

  int hosts() const;
  // "16 leaves of 8 hosts, 8 spines"
  std::string shape() const;
};

const char* name_of(Topology topology);

// Three numbers as near to each other as can be whose product is `ranks`; fewer where it is small.
std::vector<unsigned long> cubic(int ranks);

// Makes it, with one host per rank: the hosts in the order of ranks. A host's speed is in bytes of
// sums a second.
std::vector<simgrid::s4u::Host*> make(const Network& network, double sums_per_second);

}  // namespace convoy::simulate
