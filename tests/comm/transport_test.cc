// What operations ask of a transport, and no more.
#include "convoy/comm/transport.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/comm/threads.h"
#include "convoy/comm/world.h"
#include "tests/comm/allreduce_reference.h"
#include "tests/comm/wrapped_transport.h"

namespace convoy::comm {
namespace {

void run_wrapped(int ranks, const WrappedTransport::Options& options, WorldOptions world_options,
                 const std::function<void(World&)>& body) {
  auto transports = thread_transports(ranks);
  std::vector<std::thread> threads;
  for (auto& transport : transports) {
    threads.emplace_back([&, transport = std::move(transport)]() mutable {
      World world(std::make_unique<WrappedTransport>(std::move(transport), options), world_options);
      body(world);
      world.close();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Transport, RefusesMessagesThatAreTooLong) {
  auto transports = thread_transports(1);
  WrappedTransport::Options options;
  options.most_bytes = 100;
  WrappedTransport transport(std::move(transports[0]), options);
  std::vector<std::byte> data(101);
  Ticket sent = transport.send(0, 1, std::span(data).first(100));
  Ticket received = transport.receive(0, 1, std::span(data).first(100));
  EXPECT_TRUE(received.poll());
  EXPECT_THROW(transport.send(0, 1, data), std::length_error);
  EXPECT_THROW(transport.receive(0, 1, data), std::length_error);
}

// Around the longest message of a transport.
TEST(Transport, LongerDataGoesInPieces) {
  WrappedTransport::Options options;
  options.most_bytes = 1 << 20;
  run_wrapped(3, options, {}, [](World& world) {
    const Communicator comm = on_hosts(world.communicator(), 1);
    using enum AllreduceAlgorithm;
    for (const AllreduceChoice& choice :
         {AllreduceChoice{naive}, {recursive_doubling}, {ring_rsag}, {multicolor}}) {
      for (const std::size_t count : {262'144, 262'145, 700'001})
        check_one_allreduce(comm, choice, Type::f32, ReduceOp::sum, count);
    }
    const int next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    for (const std::size_t count : {1 << 20, (1 << 20) + 1, 5 << 20}) {
      std::vector<char> out(count, static_cast<char>(comm.rank())), in(count, 'x');
      Operation sent = comm.start_send(buffer_of(out), next);
      comm.receive(buffer_of(in), previous);
      sent.wait();
      ASSERT_EQ(in, std::vector<char>(count, static_cast<char>(previous)));
      ASSERT_EQ(comm.gather_text(std::string(count, 'a'))[1].size(), count);
      comm.broadcast(buffer_of(in), 1);
      ASSERT_EQ(in.back(), 0);
    }
  });
}

TEST(Transport, SegmentsCanBeNumbered) {
  EXPECT_EQ(segments_of(64, Type::u8, {64, 1}), 1);
  EXPECT_EQ(segments_of(65, Type::u8, {64, 1}), 2);
  EXPECT_EQ(segments_of(std::size_t{64} << 31, Type::u8, {64, 1}), std::numeric_limits<int>::max());
}

// Others may be inside the transport's library when the last communicator of a part goes.
TEST(Transport, PartsAreFreedWhileNobodyUsesThem) {
  for (const Progress progress : {Progress::caller, Progress::thread}) {
    WorldOptions world_options;
    world_options.progress = progress;
    WrappedTransport::Options options;
    run_wrapped(2, options, world_options, [&](World& world) {
      const Communicator& all = world.communicator();
      all.barrier();
      if (progress == Progress::caller) {
        Communicator part = all.duplicate();
        all.barrier();
        const int before = options.freed->load();
        part = {};
        if (all.rank() == 0) EXPECT_EQ(options.freed->load(), before);
        all.barrier();
      } else {
        std::vector<Communicator> parts;
        for (int i = 0; i < 10; ++i) parts.push_back(all.duplicate());
        std::vector<float> data(1'000'000, 1);
        Operation running = on_hosts(all, 1).start_allreduce(buffer_of(data), ReduceOp::sum);
        parts.clear();
        running.wait();
        EXPECT_EQ(data.back(), 2);
      }
    });
    EXPECT_EQ(options.freed->load(), progress == Progress::caller ? 4 : 2 * (1 + 10 + 1));
  }
}

}  // namespace
}  // namespace convoy::comm
