// Where a plan times updates: on this machine, or on hosts.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/launch/hosts.h"
#include "cli/plan/place.h"

namespace convoy::cli {

struct HostWords {
  std::string hosts, hostfile;
};

// Adds --hosts and --hostfile.
void add_host_options(CLI::App& command, HostWords& words);

struct Workplace {
  std::vector<int> cores;        // of this machine
  std::vector<Place> places;     // of one worker each (places_of)
  std::vector<HostSlots> hosts;  // not empty: the workers are there
  std::string gpu = {};          // what the GPUs are, as gpu_name() says it
  int threads = 1;               // of each worker

  // This machine with these GPUs, or the hosts, for workers of so many threads. Throws UsageError
  // as read_hosts() does.
  static Workplace of(const HostWords& words, const std::vector<std::string>& gpus, int threads);

  // How many workers there is room for: one on as many cores as it has threads, or on each GPU, or
  // for each slot of a host, which has one unless it says otherwise.
  int most() const;
  // Gives the place for so many workers, at most most(). Here each has a core for each of its
  // threads, unless there are GPUs.
  Place place(int workers) const;
  // "core", "GPU" or "host", whatever each worker has one of.
  const char* unit() const;
  // By which times of different workplaces are kept apart: "AMD EPYC, 2 cores", "AMD EPYC, 8 cores,
  // 2 GPUs NVIDIA H100", "hosts h0:1,h1:2".
  std::string name() const;
  // The part of it that so many workers need: the first hosts, or all of this machine.
  std::string name(int workers) const;
  // Whether times of the workplace of this name are its own: of the same, or of more hosts of which
  // these are the first. Of an empty name nothing is known, and it counts as its own.
  bool is(const std::string& name) const;
  // Whether it is its own name of before, which said nothing of GPUs, or not what they are.
  bool was(const std::string& name) const;
};

// Whether two names may be of one workplace, of which one says more: more hosts, or GPUs.
bool same_workplace(const std::string& one, const std::string& other);

}  // namespace convoy::cli
