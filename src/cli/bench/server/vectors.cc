#include "cli/bench/server/vectors.h"

#include <algorithm>
#include <barrier>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "cli/bench/server/job.h"
#include "convoy/base/clock.h"
#include "convoy/base/system.h"
#include "convoy/server/client.h"

namespace convoy::cli {
namespace {

using optim::VectorName;
using optim::VectorRole;
using server::Element;

constexpr std::size_t kMostThreads = 4;  // as shards have
constexpr int kDotVectors = 21;          // steps and changes of ten iterations, and a gradient

template <typename T>
double time_of_axpy(std::vector<std::vector<T>>& memory) {
  const std::size_t threads = std::min(usable_cores().size(), kMostThreads);
  const std::size_t size = memory[0].size();
  Clock::time_point start;
  std::barrier begin(static_cast<std::ptrdiff_t>(threads),
                     [&]() noexcept { start = Clock::now(); });
  std::vector<std::thread> all;
  for (std::size_t i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      begin.arrive_and_wait();
      const std::size_t end = size * (i + 1) / threads;
      for (std::size_t k = size * i / threads; k < end; ++k) {
        memory[2][k] = memory[0][k] + T(0.5) * memory[1][k];
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <typename T>
std::vector<VectorFigures> measure_in(const ServerBench& bench, const std::string& coordinator) {
  const std::size_t elements = bench.bytes / sizeof(T);
  server::ClientOptions options;
  options.coordinator = coordinator;
  options.name = "bench";
  options.role = server::ClientRole::observer;
  options.log = Log("", Log::Level::error);
  server::Client client(std::move(options));
  server::JobDescription description;
  description.model = "bench";
  description.vectors = {{"values", elements, optim::Sgd{}}};
  description.epoch_samples = 1;
  description.data = "none";
  client.describe(description);
  server::BatchClient shards(client);
  shards.open(sizeof(T) == sizeof(double) ? Element::f64 : Element::f32);
  std::vector<std::vector<T>> memory(3, std::vector<T>(elements));
  for (std::size_t i = 0; i < elements; ++i) {
    memory[0][i] = T(1) / static_cast<T>(i % 1000 + 1);
    memory[1][i] = T(1) / static_cast<T>(i % 777 + 3) - T(0.1);
  }
  const VectorName weights{}, gradient{VectorRole::gradient};
  for (const auto& [name, from] : {std::pair{weights, &memory[0]}, {gradient, &memory[1]}}) {
    const server::BatchView<const T> view{0, *from};
    shards.put(name, std::span(&view, 1));
  }
  server::ShardSpace space(shards);
  std::vector<VectorName> kept = {weights, gradient};
  for (int i = 2; i < kDotVectors; ++i) {
    kept.push_back({VectorRole::change, i});
    optim::axpy(space, kept.back(), weights, 1.0 / i, gradient);
  }
  // As an iteration of L-BFGS asks: the newest three with all.
  std::vector<optim::VectorPair> products;
  for (int i = 0; i < 3; ++i) {
    for (const VectorName& other : kept)
      products.emplace_back(kept[static_cast<std::size_t>(i)], other);
  }
  const auto bytes = static_cast<double>(bench.bytes);
  std::vector<VectorFigures> all = {{"memory", 3 * bytes, {}},
                                    {"axpy", 3 * bytes, {}},
                                    {"scale", 2 * bytes, {}},
                                    {"dot", 2 * bytes, {}},
                                    {"dots", kDotVectors * bytes, {}}};
  std::int64_t made = 0;
  const auto timed = [&](const auto& act) {
    const auto start = Clock::now();
    act();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  for (int repetition = -1; repetition < bench.repetitions; ++repetition) {  // the first one warms
    const VectorName sum{VectorRole::direction, ++made}, scaled{VectorRole::step, made};
    const double times[] = {time_of_axpy(memory),
                            timed([&] { optim::axpy(space, sum, weights, 0.5, gradient); }),
                            timed([&] { optim::scale(space, scaled, 0.5, weights); }),
                            timed([&] { space.dots(std::span(products).subspan(1, 1)); }),
                            timed([&] { space.dots(products); })};
    space.keep(kept);
    if (repetition < 0) continue;
    for (std::size_t i = 0; i < all.size(); ++i) all[i].times.push_back(times[i]);
  }
  return all;
}

}  // namespace

std::vector<VectorFigures> measure_vectors(const ServerBench& bench, Element element) {
  const BenchJob job(plan_of(bench), bench.folder);  // from here on there are threads
  return element == Element::f64 ? measure_in<double>(bench, job.coordinator())
                                 : measure_in<float>(bench, job.coordinator());
}

}  // namespace convoy::cli
