// The collectives over MPI ranks, started by mpirun.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "comm/internals.h"
#include "comm/transports/mpi.h"
#include "convoy/base/system.h"
#include "tests/comm/allreduce_reference.h"
#include "tests/comm/in_flight_reference.h"
#include "tests/comm/ranks_main.h"
#include "tests/comm/reference.h"
#include "tests/comm/shared_reference.h"

namespace {

using namespace convoy::comm;

TEST(Mpi, CollectivesGiveWhatASerialProgramComputes) {
  check_all_collectives(test_world().communicator());
}
TEST(Mpi, MatchByKeyInAnyOrder) { check_matching(test_world().communicator()); }

TEST(Mpi, PartsOfTheWorld) {
  const Communicator& all = test_world().communicator();
  const Communicator part = all.split(all.rank() % 2, -all.rank());
  check_all_collectives(part);
  check_matching(all.duplicate());
}

TEST(Mpi, EveryAllreduceAlgorithmTypeAndOperation) {
  check_every_allreduce(test_world().communicator());
}
TEST(Mpi, TheBitsOfAllreduceAreFixed) { check_allreduce_bits(test_world().communicator()); }

// Small whole numbers, so that any order of summation gives the same.
void check_own_allreduce(const Communicator& own) {
  ASSERT_EQ(CommunicatorInternals::choose(own, 4096).algorithm, AllreduceAlgorithm::mpi);
  const int p = own.size();
  const float sum = static_cast<float>(p * (p - 1) / 2);
  // Two at a time, which every other rank begins in the other order.
  std::vector<float> first(1024), second(1024);
  for (int round = 0; round < 10; ++round) {
    first.assign(first.size(), static_cast<float>(own.rank()));
    second.assign(second.size(), static_cast<float>(own.rank()));
    std::vector<Operation> operations;
    for (int i = 0; i < 2; ++i) {
      const bool later = (own.rank() + i) % 2 == 1;
      operations.push_back(own.start_allreduce(buffer_of(later ? second : first),
                                               later ? ReduceOp::average : ReduceOp::sum,
                                               {1, static_cast<std::uint16_t>(later ? 7 : 6)}));
    }
    std::vector<std::int64_t> largest(512, own.rank());  // beside them, by MPI as well
    own.allreduce(buffer_of(largest), ReduceOp::max, {1, 8});
    own.allreduce(Buffer(first.data(), 0, Type::f32), ReduceOp::sum, {1, 9});
    for (Operation& operation : operations) operation.wait();
    EXPECT_EQ(first, std::vector<float>(first.size(), sum));
    EXPECT_EQ(second, std::vector<float>(second.size(), sum / static_cast<float>(p)));
    EXPECT_EQ(largest, std::vector<std::int64_t>(largest.size(), p - 1));
  }
}

TEST(Mpi, ItsOwnAllreduceIsWhatRulesChoose) {
  const Communicator& all = test_world().communicator();
  const Communicator own = all.with_allreduce("..0 mpi; 1KiB.. mpi");
  check_own_allreduce(own);
  check_own_allreduce(on_hosts(own, 1));  // calls are compared by messages
  check_own_allreduce(own.split(0, -own.rank()));
  std::vector<float> exact(1000), by_messages(1000);
  for (std::size_t i = 0; i < exact.size(); ++i)
    exact[i] = by_messages[i] =
        1.0F / static_cast<float>(3 + 7 * i + static_cast<std::size_t>(own.rank()));
  own.with_reproducible(true).allreduce(buffer_of(exact), ReduceOp::average);
  all.with_allreduce("ring").with_reproducible(true).allreduce(buffer_of(by_messages),
                                                               ReduceOp::average);
  EXPECT_EQ(exact, by_messages);
}

TEST(Mpi, ItsOwnAllreduceIsForAllRanksAndForItsTypes) {
  const Communicator own = test_world().communicator().with_allreduce("mpi");
  if (own.size() == 1) return;
  const Communicator part = own.split(own.rank() % 2);
  EXPECT_NE(CommunicatorInternals::choose(part, 4096).algorithm, AllreduceAlgorithm::mpi);
  std::vector<float> data(1024, 1);
  part.allreduce(buffer_of(data), ReduceOp::sum);
  EXPECT_EQ(data, std::vector<float>(data.size(), static_cast<float>(part.size())));
  std::vector<std::uint16_t> halves(1024, 0);
  const Buffer bf16(halves.data(), halves.size(), Type::bf16);
  EXPECT_THROW((void)own.start_allreduce(bf16, ReduceOp::sum), convoy::UsageError);
}

TEST(Mpi, RegisteredAndOrdinaryMemory) { check_shared_memory(test_world().communicator()); }
TEST(Mpi, ManyAtOnceInAnyOrder) { check_crowd(test_world().communicator()); }

// Whoever starts the ranks, and whether or not it binds them.
TEST(Mpi, RanksShareTheCoresAndYieldWhereTheyAreMore) {
  const World& world = test_world();
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  std::set<std::string> hosts;  // emulated ones have the same cores
  for (int rank = 0; rank < world.size(); ++rank) hosts.insert(world.host(rank));
  std::vector<std::int32_t> together{world.cores()};
  world.communicator().allreduce(buffer_of(together), ReduceOp::sum);
  EXPECT_LE(together[0], std::max(world.size(), cores * static_cast<int>(hosts.size())));
  const bool open_mpi = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE") != nullptr;
  if (open_mpi && world.local_size() > static_cast<int>(convoy::usable_cores().size())) {
    EXPECT_EQ(convoy::environment("OMPI_MCA_mpi_yield_when_idle"), "1");
  }
}

TEST(Mpi, HardNumbersHaveTheSameBitsOnEveryRank) {
  check_hard_bits(test_world().communicator());
  check_hard_bits(on_hosts(test_world().communicator(), 1));
}

TEST(Mpi, BurstsInAnyOrder) { check_bursts(test_world().communicator()); }
TEST(Mpi, OperationsOutliveTheirCommunicator) {
  const Communicator& all = test_world().communicator();
  check_orphans([&] { return all.duplicate(); });
  check_orphans([&] { return on_hosts(all, 1); });
}

// As if each rank were on a host of its own: what otherwise goes through shared memory moves in
// messages.
TEST(Mpi, MessagesAlone) {
  const Communicator alone = on_hosts(test_world().communicator(), 1);
  check_all_collectives(alone);
  check_matching(alone);
  check_crowd(alone);
  const Communicator reproducible =
      on_hosts(test_world().communicator().with_reproducible(true), 1);
  check_all_collectives(reproducible);
}

TEST(Mpi, LargeMessages) {
  std::vector<float> data(6'000'000, 1);
  test_world().communicator().allreduce(buffer_of(data), ReduceOp::sum);
  EXPECT_EQ(data.front(), static_cast<float>(test_world().size()));
  EXPECT_EQ(data.back(), static_cast<float>(test_world().size()));
}

// Addresses for more than memory: one block after another is the same.
class Repeated {
 public:
  static constexpr std::size_t kBlock = 16 << 20;
  explicit Repeated(std::size_t bytes) : bytes_(bytes) {
    const int file = memfd_create("repeated", 0);
    if (file < 0 || ftruncate(file, kBlock) != 0) std::abort();
    base_ = static_cast<std::uint8_t*>(
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t at = 0; at < bytes_; at += kBlock) {
      mmap(base_ + at, std::min(kBlock, bytes_ - at), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, file, 0);
    }
    close(file);
  }
  ~Repeated() { munmap(base_, bytes_); }
  Repeated(const Repeated&) = delete;
  Buffer buffer() const { return {base_, bytes_, Type::u8}; }
  std::span<std::uint8_t> block() const { return {base_, kBlock}; }
  std::uint8_t last() const { return base_[bytes_ - 1]; }

 private:
  std::size_t bytes_;
  std::uint8_t* base_;
};

// Counts of bytes that an int doesn't hold.
TEST(Mpi, MoreThanTwoGibibytes) {
  const Communicator& all = test_world().communicator();
  if (all.size() != 2) return;  // large, so once
  const Communicator alone = on_hosts(all, 1);
  const Repeated data((std::size_t{1} << 31) + 5);
  const auto value = [](int rank, std::size_t i) {
    return static_cast<std::uint8_t>(i * 7 + i / 251 + static_cast<std::size_t>(rank) * 100);
  };
  const auto fill = [&] {
    for (std::size_t i = 0; i < Repeated::kBlock; ++i) data.block()[i] = value(all.rank(), i);
  };
  // A maximum may be taken any number of times.
  fill();
  CommunicatorInternals::start_allreduce(alone, data.buffer(), ReduceOp::max,
                                         {AllreduceAlgorithm::recursive_doubling})
      .wait();
  for (std::size_t i = 0; i < Repeated::kBlock; ++i)
    ASSERT_EQ(data.block()[i], std::max(value(0, i), value(1, i)));
  fill();
  if (all.rank() == 0)
    all.send(data.buffer(), 1);
  else
    all.receive(data.buffer(), 0);
  for (std::size_t i = 0; i < Repeated::kBlock; ++i) ASSERT_EQ(data.block()[i], value(0, i));
  EXPECT_EQ(data.last(), value(0, 4));
}

// A profiler between a program and MPI sees the program's calls.
int profiled = 0;

TEST(Mpi, MessagesAreNoCallsOfTheProgram) {
  check_all_collectives(on_hosts(test_world().communicator(), 1));
  EXPECT_EQ(profiled, 0);
}

// What is given up does not change the buffer any more.
TEST(Mpi, DroppedMessagesLeaveTheBufferAlone) {
  const auto transport = mpi_transport(MPI_COMM_WORLD);
  if (transport->size() != 2) return;      // others, who wait, would keep them from the cores
  constexpr std::size_t kBytes = 4 << 20;  // a rendezvous
  const int other = 1 - transport->rank();
  for (const bool early : {true, false}) {
#ifdef MPICH_VERSION
    // UCX, under MPICH, goes on with a message that was cancelled on its way, and doesn't say when
    // it ends.
    if (!early) break;
#endif
    std::vector<std::byte> data(kBytes, std::byte{static_cast<unsigned char>(other)});
    std::byte word{};
    const auto wait = [&](Ticket ticket) {
      while (!ticket.poll()) {
      }
    };
    if (transport->rank() == 0) {
      if (!early) wait(transport->receive(1, 2, {&word, 1}));  // the message is on its way
      {
        Ticket dropped = transport->receive(1, 1, data);
        for (int i = 0; i < 3; ++i) dropped.poll();
      }
      const std::vector<std::byte> before = data;
      if (early) wait(transport->send(1, 3, {&word, 1}));
      for (int i = 0; i < 2000; ++i) transport->make_progress();
      EXPECT_EQ(data, before);
      wait(transport->send(1, 4, {&word, 1}));
    } else {
      if (early) wait(transport->receive(0, 3, {&word, 1}));
      Ticket sent = transport->send(0, 1, data);
      if (!early) wait(transport->send(0, 2, {&word, 1}));
      Ticket end = transport->receive(0, 4, {&word, 1});
      while (!end.poll()) sent.poll();
    }
  }
}

}  // namespace

// In front of the library's.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  ++profiled;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
extern "C" int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  ++profiled;
  return PMPI_Test(request, done, status);
}
