// A transport in front of another, for what real ones do rarely or not visibly.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "convoy/comm/transport.h"

namespace convoy::comm {

class WrappedTransport : public Transport {
 public:
  struct Options {
    std::size_t most_bytes = kMaxMessage;
    std::shared_ptr<std::atomic<int>> freed = std::make_shared<std::atomic<int>>(0);  // so far
  };

  WrappedTransport(std::unique_ptr<Transport> inner, Options options)
      : inner_(std::move(inner)), options_(std::move(options)) {}
  ~WrappedTransport() override { ++*options_.freed; }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  int world_rank(int rank) const override { return inner_->world_rank(rank); }
  std::size_t most_bytes() const override { return options_.most_bytes; }
  std::unique_ptr<Transport> split(int color, int key) override {
    auto part = inner_->split(color, key);
    if (!part) return nullptr;
    return std::make_unique<WrappedTransport>(std::move(part), options_);
  }
  void post_note(int to, std::span<const std::byte> note) override { inner_->post_note(to, note); }
  std::optional<std::pair<int, std::vector<std::byte>>> poll_note() override {
    return inner_->poll_note();
  }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }
  bool abort_ends_process() const override { return inner_->abort_ends_process(); }

 protected:
  void* start_send(int to, std::uint32_t tag, std::span<const std::byte> data) override {
    return new Ticket(inner_->send(to, tag, data));
  }
  void* start_receive(int from, std::uint32_t tag, std::span<std::byte> data) override {
    return new Ticket(inner_->receive(from, tag, data));
  }
  bool poll(void* request) override {
    std::unique_ptr<Ticket> ticket(static_cast<Ticket*>(request));
    const bool done = ticket->poll();
    if (!done) ticket.release();
    return done;
  }
  void cancel(void* request) noexcept override { delete static_cast<Ticket*>(request); }

 private:
  std::unique_ptr<Transport> inner_;
  Options options_;
};

}  // namespace convoy::comm
