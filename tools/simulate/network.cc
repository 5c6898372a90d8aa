#include "network.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/random.h"

namespace convoy::simulate {
namespace {

namespace s4u = simgrid::s4u;

int leaves(const Network& network) { return (network.ranks + network.leaf - 1) / network.leaf; }

// Which random numbers are drawn for what.
enum class Draw : std::uint64_t { placement = 0, links = 1 };

void perturb(const Network& network) {
  std::vector<s4u::Link*> links = s4u::Engine::get_instance()->get_all_links();
  std::erase_if(links, [](const s4u::Link* link) { return link->get_name().starts_with("__"); });
  std::sort(links.begin(), links.end(),
            [](const s4u::Link* a, const s4u::Link* b) { return a->get_name() < b->get_name(); });
  RandomStream random(network.seed, static_cast<std::uint64_t>(Draw::links));
  for (s4u::Link* link : links) {
    link->set_bandwidth(network.bytes_per_second * (1 - network.spread * random.uniform()));
    link->set_latency(network.latency_s * (1 + network.spread * random.uniform()));
  }
}

}  // namespace

int Network::hosts() const {
  if (topology == Topology::fat_tree) return leaves(*this) * leaf;
  int product = 1;
  for (const unsigned long length : torus) product *= static_cast<int>(length);
  return product;
}

std::string Network::shape() const {
  if (topology == Topology::fat_tree) {
    return std::to_string(leaves(*this)) + " leaves of " + std::to_string(leaf) + " hosts, " +
           std::to_string(spines) + " spines";
  }
  std::string text;
  for (const unsigned long length : torus)
    text += (text.empty() ? "" : "x") + std::to_string(length);
  return text;
}

const char* name_of(Topology topology) {
  return topology == Topology::fat_tree ? "fat-tree" : "torus";
}

std::vector<unsigned long> cubic(int ranks) {
  const auto divisor = [](int number, double root) {  // the largest that is not above the root
    int best = 1;
    for (int d = 1; d <= number && d <= root + 1e-9; ++d) {
      if (number % d == 0) best = d;
    }
    return best;
  };
  const int first = divisor(ranks, std::cbrt(ranks));
  const int second = divisor(ranks / first, std::sqrt(ranks / first));
  std::vector<unsigned long> lengths;
  for (const int length : {ranks / first / second, second, first}) {
    if (length > 1) lengths.push_back(static_cast<unsigned long>(length));
  }
  return lengths;
}

std::vector<s4u::Host*> make(const Network& network, double sums_per_second) {
  std::vector<s4u::Host*> hosts;
  const s4u::ClusterCallbacks parts(
      [&](s4u::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
        s4u::Host* host = zone->create_host("host" + std::to_string(id), sums_per_second);
        hosts.push_back(host->seal());
        return std::pair<simgrid::kernel::routing::NetPoint*, simgrid::kernel::routing::NetPoint*>(
            host->get_netpoint(), nullptr);
      });
  constexpr auto kEachWay = s4u::Link::SharingPolicy::SPLITDUPLEX;
  s4u::NetZone* zone = nullptr;
  if (network.topology == Topology::fat_tree) {
    const auto count = [](int number) { return static_cast<unsigned>(number); };
    const s4u::FatTreeParams tree(2, {count(network.leaf), count(leaves(network))},
                                  {1, count(network.spines)}, {1, 1});
    zone = s4u::create_fatTree_zone("fat-tree", nullptr, tree, parts, network.bytes_per_second,
                                    network.latency_s, kEachWay);
  } else {
    zone = s4u::create_torus_zone("torus", nullptr, network.torus, parts, network.bytes_per_second,
                                  network.latency_s, kEachWay);
  }
  zone->seal();
  perturb(network);
  if (network.shuffled) {
    const auto order =
        permutation(hosts.size(), network.seed, static_cast<std::uint64_t>(Draw::placement));
    std::vector<s4u::Host*> placed;
    for (const std::size_t index : order) placed.push_back(hosts[index]);
    hosts = std::move(placed);
  }
  hosts.resize(static_cast<std::size_t>(network.ranks));
  return hosts;
}

}  // namespace convoy::simulate
