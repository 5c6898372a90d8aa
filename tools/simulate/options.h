// The command line of convoy-simulate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "simulation.h"

namespace convoy::simulate {

struct Options {
  int ranks = 64;
  std::string topology = "fat-tree";
  std::string sizes = "93MiB";
  std::string algorithms =
      "auto,recursive-doubling,ring,ring-rsag,ring-rsag segment=2MiB,multicolor k=4,multicolor "
      "k=ranks";
  std::string rate = "100gbit";
  double latency_us = 1;
  double spread = 0.02;
  std::uint64_t seed = 0;
  std::string placement = "shuffled";
  int leaf = 8;
  int spines = 0;  // 0: as many as a leaf has hosts
  std::string torus;
  std::string sum_rate = "10GB";
  std::vector<std::string> simgrid;
  std::string json;
};

void declare(CLI::App& app, Options& options);

// Both throw UsageError.
Network network_of(const Options& options);
Plan plan_of(const Options& options);

}  // namespace convoy::simulate
