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

// Reads what --hosts and --hostfile say; gives nothing where neither is given. Throws UsageError
// for both, and for a file that can't be read.
std::vector<HostSlots> read_hosts(const std::string& list, const std::string& file);

// Fills in missing slots: an even share of the ranks if no host has any, one otherwise.
void complete_slots(std::vector<HostSlots>& hosts, int ranks);

int total_slots(const std::vector<HostSlots>& hosts);

// Where the first `ranks` of a job on all these slots run; a host without slots has one.
std::vector<HostSlots> first_slots(const std::vector<HostSlots>& hosts, int ranks);

// "node1:2,node2:2", which both Open MPI and MPICH read.
std::string format_hosts(const std::vector<HostSlots>& hosts);

// Whether a role or rank for this host needs nobody to start it there. Also for an empty name.
bool is_this_host(const std::string& host);

}  // namespace convoy::cli
