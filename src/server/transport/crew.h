// Threads that come and go, and are all joined in the end.
#pragma once

#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace convoy::server::transport {

// Threads: any. REQUIRES of the destructor: join() was called, and nothing started since.
class Crew {
 public:
  // Runs the body in a thread of its own. After join() has begun, not at all.
  void start(std::function<void()> body);
  // Waits for all. REQUIRES: the caller is none of them.
  void join();

 private:
  struct Member {
    std::thread thread;
    bool ended = false;
  };

  std::mutex mutex_;
  std::list<Member> members_;
  bool closed_ = false;
};

}  // namespace convoy::server::transport
