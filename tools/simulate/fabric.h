// Messages between simulated ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include <simgrid/s4u.hpp>

#include "convoy/comm/transport.h"

namespace convoy::simulate {

// Shared by the ranks of a simulation, which are actors of one process and run one at a time.
//
// A message of more than kEager bytes starts to move when both sides have posted it, a smaller one
// when it is sent. Between two ranks messages follow each other, as they do on a connection of TCP
// or a queue pair of InfiniBand; SimGrid would let them share the link, so that all of them end
// together. Once started they need nothing from the ranks, which may be adding meanwhile.
class Fabric {
 public:
  static constexpr std::size_t kEager = 64 << 10;

  explicit Fabric(std::vector<simgrid::s4u::Host*> hosts);

  // For an engine that is a guest: there are no notes.
  std::unique_ptr<comm::Transport> transport(int rank);

  // Whether messages carry what is in the buffers; otherwise only their time passes, but for what
  // ranks tell each other about their calls.
  void carry_data(bool yes) { least_empty_ = yes ? SIZE_MAX : kCalls; }

 private:
  friend class FabricTransport;

  // One side of a message.
  struct Side {
    std::span<std::byte> data;
    std::size_t sent = 0;  // bytes that the sender had
    bool done = false;
    bool cancelled = false;
  };
  struct Message {
    int from = 0;
    int to = 0;
    std::size_t bytes = 0;
    std::shared_ptr<Side> sender;  // not of eager ones, which have a copy
    std::shared_ptr<Side> receiver;
    std::vector<std::byte> copy;
    bool arrived = false;
  };
  // What one side has posted under (sender, receiver, tag), and the other has not.
  struct Line {
    std::deque<std::shared_ptr<Message>> sent;
    std::deque<std::shared_ptr<Side>> wanted;
  };
  struct Connection {
    std::deque<std::shared_ptr<Message>> moving;
    simgrid::s4u::SemaphorePtr work = simgrid::s4u::Semaphore::create(0);
  };
  using Key = std::tuple<int, int, std::uint32_t>;

  static constexpr std::size_t kCalls = 1 << 10;

  std::shared_ptr<Side> send(int from, int to, std::uint32_t tag, std::span<const std::byte> data);
  std::shared_ptr<Side> receive(int from, int to, std::uint32_t tag, std::span<std::byte> data);
  void meet(const std::shared_ptr<Message>& message);
  void move(const std::shared_ptr<Message>& message);
  void carry(Connection& connection);
  void deliver(Message& message);
  void finish(Side& side, int rank);

  std::vector<simgrid::s4u::Host*> hosts_;
  std::vector<simgrid::s4u::SemaphorePtr> news_;  // by rank: a token for each side that got done
  std::map<Key, Line> lines_;
  std::map<std::pair<int, int>, Connection> connections_;
  std::size_t least_empty_ = SIZE_MAX;  // messages of so many bytes carry no data
};

}  // namespace convoy::simulate
