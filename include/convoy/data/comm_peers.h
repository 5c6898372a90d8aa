// A communicator as the peers of a store. For programs that link convoy::data and convoy::comm.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "convoy/comm/communicator.h"
#include "convoy/data/peers.h"

namespace convoy::data {

class CommPeers final : public Peers {
 public:
  // Collective: what the peers say never meets other operations on `all`.
  explicit CommPeers(const comm::Communicator& all) : comm_(all.duplicate()) {}

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::vector<std::string> gather(const std::string& text) override {
    return comm_.gather_text(text);
  }
  std::unique_ptr<Exchange> start_exchange(std::span<const std::byte> send,
                                           std::span<const std::size_t> send_counts,
                                           std::span<std::byte> receive,
                                           std::span<const std::size_t> receive_counts,
                                           std::span<const std::size_t> receive_offsets) override {
    return std::make_unique<Started>(
        comm_.start_alltoallv(send, send_counts, receive, {receive_counts, receive_offsets},
                              {.key = started_++}));  // several at a time need different ones
  }
  std::unique_ptr<Peers> split(int color) override {
    return std::unique_ptr<Peers>(new CommPeers(Own{}, comm_.split(color)));
  }

 private:
  class Started final : public Exchange {
   public:
    explicit Started(comm::Operation operation) : operation_(std::move(operation)) {}
    void wait() override { operation_.wait(); }

   private:
    comm::Operation operation_;
  };
  struct Own {};
  CommPeers(Own, comm::Communicator own) : comm_(std::move(own)) {}

  comm::Communicator comm_;
  std::uint16_t started_ = 0;
};

}  // namespace convoy::data
