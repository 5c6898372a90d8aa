#include "cli/launch/hosts.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include "convoy/base/error.h"
#include "convoy/base/even_share.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

constexpr int kMostSlots = 65536;

bool is_host_name(const std::string& name) {
  // A leading '-' would be read as an option by mpirun and ssh.
  return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
  });
}

int parse_slots(const std::string& text, const std::string& where) {
  int slots = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, slots);
  if (error != std::errc{} || stop != end || slots < 1 || slots > kMostSlots) {
    throw UsageError(where + ": '" + text + "' is not a number of ranks between 1 and " +
                     std::to_string(kMostSlots));
  }
  return slots;
}

HostSlots parse_entry(const std::string& entry, const std::string& where) {
  const std::size_t colon = entry.find(':');
  HostSlots host{entry.substr(0, colon), 0};
  if (!is_host_name(host.name)) {
    throw UsageError(where + ": '" + entry + "' is not a host; write for example node1:2,node2:2");
  }
  if (colon != std::string::npos) host.slots = parse_slots(entry.substr(colon + 1), where);
  return host;
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    hosts.push_back(parse_entry(text.substr(begin, end - begin), "--hosts " + text));
    begin = end + 1;
  }
  return hosts;
}

std::vector<HostSlots> parse_hostfile(std::istream& in, const std::string& name) {
  std::vector<HostSlots> hosts;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    if (!(words >> word)) continue;
    const std::string where = "host file " + name + ", line " + std::to_string(number);
    HostSlots host = parse_entry(word, where);
    while (words >> word) {
      // Open MPI's files may carry max_slots, which has no meaning here.
      if (word.rfind("max_slots=", 0) == 0 || word.rfind("max-slots=", 0) == 0) continue;
      if (word.rfind("slots=", 0) != 0) {
        throw UsageError(where + ": '" + word +
                         "' was not expected; write for example node1 slots=2");
      }
      host.slots = parse_slots(word.substr(6), where);
    }
    hosts.push_back(host);
  }
  if (hosts.empty()) throw UsageError("host file " + name + " names no host");
  return hosts;
}

std::vector<HostSlots> read_hosts(const std::string& list, const std::string& file) {
  if (!list.empty() && !file.empty()) {
    throw UsageError("--hosts and --hostfile both say where to run; give one of them");
  }
  if (!list.empty()) return parse_hosts(list);
  if (file.empty()) return {};
  std::ifstream in(file);
  if (!in) throw UsageError("--hostfile " + file + ": there is no such file that can be read");
  return parse_hostfile(in, file);
}

void complete_slots(std::vector<HostSlots>& hosts, int ranks) {
  const bool none_given = std::all_of(hosts.begin(), hosts.end(),
                                      [](const HostSlots& host) { return host.slots == 0; });
  const int count = static_cast<int>(hosts.size());
  for (int i = 0; i < count; ++i) {
    HostSlots& host = hosts[static_cast<std::size_t>(i)];
    if (host.slots != 0) continue;
    host.slots = none_given ? std::max(1, evenly(ranks, count, i).size) : 1;
  }
}

int total_slots(const std::vector<HostSlots>& hosts) {
  int total = 0;
  for (const HostSlots& host : hosts) total += std::max(1, host.slots);
  return total;
}

std::vector<HostSlots> first_slots(const std::vector<HostSlots>& hosts, int ranks) {
  std::vector<HostSlots> first;
  for (const HostSlots& host : hosts) {
    if (ranks <= 0) break;
    first.push_back({host.name, std::min(std::max(1, host.slots), ranks)});
    ranks -= first.back().slots;
  }
  return first;
}

std::string format_hosts(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts) {
    text += (text.empty() ? "" : ",") + host.name + ":" + std::to_string(host.slots);
  }
  return text;
}

bool is_this_host(const std::string& host) {
  const std::string own = host_name();
  return host.empty() || host == "localhost" || host == "127.0.0.1" || host == own ||
         host == own.substr(0, own.find('.'));
}

}  // namespace convoy::cli
