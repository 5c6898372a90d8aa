// Where ranks run.
#pragma once

#include <istream>
#include <string>
#include <vector>

namespace convoy::cli {

struct HostSlots {
  std::string name;
  int slots = 0;  // 0: not given
};

// Reads "node1:2,node2:2" or "node1,node2". Throws UsageError naming the entry that is wrong.
std::vector<HostSlots> parse_hosts(const std::string& text);

// Reads one host per line: "node1", "node1:2" or "node1 slots=2"; '#' starts a comment. `name`
// stands in error messages.
std::vector<HostSlots> parse_hostfile(std::istream& in, const std::string& name);

// Fills in missing slots: an even share of the ranks if no host has any, one otherwise.
void complete_slots(std::vector<HostSlots>& hosts, int ranks);

int total_slots(const std::vector<HostSlots>& hosts);

// "node1:2,node2:2", which both Open MPI and MPICH read.
std::string format_hosts(const std::vector<HostSlots>& hosts);

}  // namespace convoy::cli
