#include "server/transport/stream_link.h"

#include <utility>

#include "convoy/base/error.h"
#include "server/transport/grpc_bytes.h"

namespace convoy::server::transport {

StreamLink::StreamLink(std::shared_ptr<Session> session) : session_(std::move(session)) {}
StreamLink::~StreamLink() = default;

void StreamLink::wake() { next_step(); }

// Whatever is under way comes back then, and the end begins.
void StreamLink::close() { cancel(); }

void StreamLink::on_begun(bool ok) {
  if (!ok) failed_ = true;
  open_ = true;
  next_step();
}

void StreamLink::on_begun_event(bool ok) {
  on_begun(ok);
  came_back();
}

// After the next operations have begun. The last to come back is the end, or a read that it ended.
void StreamLink::came_back() {
  if (--under_way_ != 0 || !end_done_) return;
  session_->ended(why());
  gone();
}

void StreamLink::next_step() {
  // What runs this may let go of the last other reference.
  const auto self = shared_from_this();
  steps_.run([this] { step(); });
}

void StreamLink::step() {
  if (!open_ || end_begun_) return;
  if (read_done_.exchange(false)) read_under_way_ = false;
  if (write_done_.exchange(false)) {
    write_under_way_ = false;
    sent_ = Frame{};
  }
  const bool failed = failed_;
  if (!failed && !read_under_way_) {
    read_under_way_ = true;
    begin_read(received_, start(reading_));
  }
  if (!failed && !write_under_way_ && session_->next_frame(*this, kStreamPayload, sent_)) {
    write_under_way_ = true;
    begin_write(to_grpc(sent_), start(writing_));
  }
  // A server ends although it still reads: the end ends the read as well.
  const bool finished = !write_under_way_ && session_->finished();
  if (finished || (failed && !read_under_way_ && !write_under_way_)) {
    end_begun_ = true;
    begin_end(start(ending_));
  }
}

void StreamLink::on_read(bool ok) {
  if (!ok) {
    failed_ = true;
  } else {
    try {
      session_->on_frame(*this, from_grpc(std::exchange(received_, {})));
    } catch (const Failure& e) {
      session_->broken(e.what());
    }
    if (session_->has_work()) session_->work();
  }
  read_done_ = true;
  next_step();
  came_back();
}

void StreamLink::on_written(bool ok) {
  if (!ok) failed_ = true;
  write_done_ = true;
  next_step();
  if (session_->has_work()) session_->work();
  came_back();
}

void StreamLink::on_end(bool) {
  end_done_ = true;
  came_back();
}

}  // namespace convoy::server::transport
