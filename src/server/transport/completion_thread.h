// A completion queue of gRPC and the thread that empties it.
#pragma once

#include <grpcpp/completion_queue.h>

#include <memory>
#include <thread>
#include <utility>

#include "server/transport/stream_link.h"

namespace convoy::server::transport {

template <class Queue>
class CompletionThread {
 public:
  explicit CompletionThread(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {
    thread_ = std::thread([this] {
      void* event = nullptr;
      bool ok = false;
      while (queue_->Next(&event, &ok)) static_cast<Event*>(event)->complete(ok);
    });
  }
  // Waits until all that is under way has come back. REQUIRES: nothing begins any more, and the
  // caller is not this thread.
  ~CompletionThread() {
    queue_->Shutdown();
    thread_.join();
  }
  Queue& queue() { return *queue_; }

 private:
  const std::unique_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace convoy::server::transport
