// A server and channels within this process: with a stream alone, and with shared memory beside it.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "tests/base/patience.h"
#include "tests/server/transport/local_link.h"

namespace convoy::server::transport::test {

using namespace std::chrono_literals;  // NOLINT
using Status = Answer::Status;

inline Clock::time_point soon() { return Clock::now() + convoy::test::patience(); }

inline std::string text_of(const Message& message) {
  const auto bytes = message.gather();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Requests wait here for a test to answer them.
class Waiting {
 public:
  void put(Request request, Reply reply) {
    const std::lock_guard lock(mutex_);
    held_.emplace_back(std::move(request), std::move(reply));
    bytes_ += held_.back().first.message.size();
    changed_.notify_all();
  }
  std::optional<std::pair<Request, Reply>> take_if_there() {
    {
      const std::lock_guard lock(mutex_);
      if (held_.empty()) return std::nullopt;
    }
    return take();
  }
  std::pair<Request, Reply> take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, convoy::test::patience(), [&] { return !held_.empty(); }))
      throw Failure("no request came");
    auto first = std::move(held_.front());
    held_.pop_front();
    bytes_ -= first.first.message.size();
    return first;
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, convoy::test::patience(), [&] { return held_.size() >= count; }))
      throw Failure("too few requests came");
  }
  // Lets go of all, unanswered.
  void clear() {
    std::deque<std::pair<Request, Reply>> held;
    {
      const std::lock_guard lock(mutex_);
      held.swap(held_);
      bytes_ = 0;
    }
  }
  std::size_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Request, Reply>> held_;
  std::size_t bytes_ = 0;
};

class ChannelTest : public testing::TestWithParam<bool> {
 protected:
  ServerSettings server_settings() {
    ServerSettings settings;
    settings.identity = {"job", "model"};
    settings.handler = [this](Request request, Reply reply) {
      if (request.method == "echo") return reply.send(std::move(request.message));
      if (request.method == "size")
        return reply.send(
            Message::of(std::vector<std::byte>(std::stoul(text_of(request.message)))));
      if (request.method == "throw") throw Failure("the disk is full");
      if (request.method == "fail") return reply.fail("not today");
      if (request.method == "forget") return;
      waiting_.put(std::move(request), std::move(reply));
    };
    return settings;
  }
  ChannelSettings channel_settings() {
    ChannelSettings settings;
    settings.identity = {"job", "model"};
    settings.name = "replica 1";
    settings.shared_memory = GetParam();
    return settings;
  }
  LocalServer& server() {
    if (!server_) server_.emplace(server_settings());
    return *server_;
  }
  std::unique_ptr<Channel> channel() {
    return std::make_unique<Channel>(channel_settings(),
                                     std::make_unique<LocalConnector>(server()));
  }

  Waiting waiting_;
  std::optional<LocalServer> server_;
};

}  // namespace convoy::server::transport::test
