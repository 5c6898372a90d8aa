#include "simulation.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include <smpi/smpi.h>
#include <simgrid/s4u.hpp>

#include "comm/engine/engine.h"
#include "comm/internals.h"
#include "convoy/base/error.h"
#include "convoy/comm/communicator.h"
#include "fabric.h"
#include "sums.h"

namespace convoy::simulate {
namespace {

namespace s4u = simgrid::s4u;

constexpr const char* kJob = "allreduce";

// What the ranks share: they are actors of one process and run one at a time.
struct Shared {
  const Plan& plan;
  const std::function<void(const Result&)>& report;
  Fabric& fabric;
  std::vector<std::string> hosts;
  Sums sums;
  s4u::BarrierPtr barrier;  // takes no simulated time
  int wrong = -1;           // a rank with a wrong sum
};

// The two buffers of a rank. Those that nobody reads are folded: SMPI maps one block again and
// again, and copies no message from or to it.
class Memory {
 public:
  Memory(std::size_t count, bool real) : real_(real) {
    for (float*& buffer : buffers_) {
      buffer = static_cast<float*>(real ? std::calloc(count, sizeof(float))
                                        : SMPI_SHARED_MALLOC(count * sizeof(float)));
      if (buffer == nullptr) throw Failure("there is not enough memory");
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    for (float* buffer : buffers_) {
      if (real_)
        std::free(buffer);
      else
        SMPI_SHARED_FREE(buffer);
    }
  }
  float* data() { return buffers_[0]; }
  float* sum() { return buffers_[1]; }

 private:
  bool real_;
  float* buffers_[2] = {};
};

// Whole numbers, so that every order of summation gives the same; 251 is prime, so that no slice
// looks like another.
constexpr std::size_t kPeriod = 251;

class Rank {
 public:
  Rank(Shared& shared, int rank)
      : shared_(shared), rank_(rank), size_(static_cast<int>(shared.hosts.size())) {
    const std::shared_ptr<comm::Transport> transport = shared.fabric.transport(rank);
    // A guest waits as long as it takes: its deadlines would be in real time.
    comm::Engine::Options options;
    options.guest = true;
    const auto engine = std::make_shared<comm::Engine>(transport, options);
    engine->set_hosts(shared.hosts);
    all_ = comm::Communicator(engine, transport);
    comm::CommunicatorInternals::locate(all_, shared.hosts);
    op_ = priced_sum();
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() { MPI_Op_free(&op_); }

  void run(std::size_t count) {
    const bool real = count * sizeof(float) * static_cast<std::size_t>(size_) <= kMostReal;
    Memory memory(count, real);
    for (const Candidate& candidate : shared_.plan.candidates) {
      if (rank_ == 0) {
        shared_.sums.real = real;
        shared_.fabric.carry_data(real);
      }
      if (real) fill(memory.data(), count);
      shared_.barrier->wait();
      const double start = s4u::Engine::get_clock();
      const float* sum = reduce(candidate, memory, count);
      if (real && !right(sum, count)) shared_.wrong = rank_;
      shared_.barrier->wait();
      if (rank_ != 0) continue;
      if (shared_.wrong >= 0) {
        throw Failure(candidate.name + " gave a wrong sum on rank " +
                      std::to_string(shared_.wrong));
      }
      shared_.report({&candidate, choice(candidate, count), count * sizeof(float),
                      s4u::Engine::get_clock() - start, real});
    }
  }

 private:
  comm::AllreduceChoice choice(const Candidate& candidate, std::size_t count) const {
    if (candidate.kind == Candidate::Kind::algorithm) return candidate.choice;
    return comm::CommunicatorInternals::choose(all_, count * sizeof(float));
  }

  const float* reduce(const Candidate& candidate, Memory& memory, std::size_t count) {
    if (candidate.kind == Candidate::Kind::mpi) {
      MPI_Allreduce(memory.data(), memory.sum(), static_cast<int>(count), MPI_FLOAT, op_,
                    MPI_COMM_WORLD);
      return memory.sum();
    }
    comm::CommunicatorInternals::allreduce(all_, {memory.data(), count, comm::Type::f32},
                                           comm::ReduceOp::sum, choice(candidate, count));
    return memory.data();
  }

  void fill(float* data, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i)
      data[i] = static_cast<float>(i % kPeriod + static_cast<std::size_t>(rank_));
  }

  bool right(const float* sum, std::size_t count) const {
    const auto ranks = static_cast<std::size_t>(size_);
    for (std::size_t i = 0; i < count; ++i) {
      if (sum[i] != static_cast<float>(ranks * (i % kPeriod) + ranks * (ranks - 1) / 2))
        return false;
    }
    return true;
  }

  Shared& shared_;
  int rank_;
  int size_;
  comm::Communicator all_;
  MPI_Op op_ = MPI_OP_NULL;
};

// A rank that fails leaves the others without their messages: nothing can go on.
void run_rank(Shared& shared, int number) {
  try {
    MPI_Init(nullptr, nullptr);
    {
      Rank rank(shared, number);
      for (const std::size_t count : shared.plan.counts) rank.run(count);
    }
    MPI_Finalize();
  } catch (const std::exception& error) {
    std::fflush(nullptr);
    std::fprintf(stderr, "convoy-simulate: %s\n", error.what());
    std::_Exit(exit_status(error));
  }
}

}  // namespace

void simulate(const Network& network, const Plan& plan,
              const std::function<void(const Result&)>& report) {
  const bool free_sums = plan.sums_per_second <= 0;
  const auto hosts = make(network, free_sums ? 1e9 : plan.sums_per_second);
  Fabric fabric(hosts);
  Shared shared{plan, report, fabric, {}, {}, nullptr};
  shared.sums.free = free_sums;
  for (s4u::Host* host : hosts) {
    host->set_data(&shared.sums);
    shared.hosts.push_back(host->get_name());
  }
  shared.barrier = s4u::Barrier::create(static_cast<unsigned>(hosts.size()));
  SMPI_init();
  SMPI_app_instance_register(kJob, nullptr, static_cast<int>(hosts.size()));
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const s4u::ActorPtr actor = s4u::Actor::init("rank" + std::to_string(rank), hosts[rank]);
    actor->set_property("instance_id", kJob);
    actor->set_property("rank", std::to_string(rank));
    actor->start([&shared, rank] { run_rank(shared, static_cast<int>(rank)); });
  }
  s4u::Engine::get_instance()->run();
  SMPI_finalize();
}

}  // namespace convoy::simulate
