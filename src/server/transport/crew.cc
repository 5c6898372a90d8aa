#include "server/transport/crew.h"

#include <iterator>
#include <utility>

namespace convoy::server::transport {

void Crew::start(std::function<void()> body) {
  std::list<Member> ended;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    for (auto member = members_.begin(); member != members_.end();) {
      const auto next = std::next(member);
      if (member->ended) ended.splice(ended.end(), members_, member);
      member = next;
    }
    Member& member = members_.emplace_back();
    member.thread = std::thread([this, &member, body = std::move(body)]() mutable {
      body();
      body = nullptr;  // what it holds ends in this thread, too
      const std::lock_guard lock(mutex_);
      member.ended = true;
    });
  }
  for (Member& member : ended) member.thread.join();
}

void Crew::join() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  // No thread is added any more, and members stay where they are: their threads refer to them.
  for (Member& member : members_) member.thread.join();
  members_.clear();
}

}  // namespace convoy::server::transport
