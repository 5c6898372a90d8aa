// What a handler answers.
#include <utility>

#include "server/transport/server_session.h"

namespace convoy::server::transport {

Reply& Reply::operator=(Reply&& other) noexcept {
  if (this != &other) {
    Reply ending(std::move(*this));
    session_ = std::move(other.session_);
    call_ = other.call_;
    token_ = std::move(other.token_);
  }
  return *this;
}

Reply::~Reply() {
  const auto session = session_.lock();
  // What the handler throws says more.
  if (session && !session->unwinding(call_))
    finish(kUnanswered, Message::copy_of("the server's handler gave no answer"));
}

void Reply::finish(std::uint8_t status, Message message) {
  const auto session = std::exchange(session_, {}).lock();
  message.hold(std::exchange(token_, nullptr));
  if (session) session->answer(call_, status, std::move(message));
}

void Reply::send(Message message) { finish(kDone, std::move(message)); }
void Reply::fail(std::string_view what) { finish(kFailed, Message::copy_of(what)); }

bool Reply::abandoned() const {
  const auto session = session_.lock();
  return !session || !session->pending(call_);
}

}  // namespace convoy::server::transport
