// One bidirectional stream of gRPC as a link.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <memory>
#include <string>

#include "server/transport/link.h"

namespace convoy::server::transport {

// What a completion queue gives back when something is done.
class Event {
 public:
  virtual ~Event() = default;
  virtual void complete(bool ok) = 0;
};

// What both sides' streams have in common. Each operation under way keeps the stream alive, and the
// stream its session, until the last has come back.
//
// Operations are begun within `steps_` only, one at a time: a read always, a write while there is
// something to send, and when neither can go on, the end.
class StreamLink : public Link, public std::enable_shared_from_this<StreamLink> {
 public:
  void wake() final;
  void close() final;

 protected:
  explicit StreamLink(std::shared_ptr<Session> session);
  ~StreamLink() override;

  // Where the call has begun already.
  void begin() { on_begun(true); }

  virtual void begin_read(grpc::ByteBuffer& buffer, Event* done) = 0;
  virtual void begin_write(const grpc::ByteBuffer& buffer, Event* done) = 0;
  // Client: asks for the status. Server: gives one.
  virtual void begin_end(Event* done) = 0;
  virtual void cancel() = 0;
  // Why it ended, once begin_end() is done.
  virtual std::string why() const = 0;
  // After everything, from the queue's thread: nothing is under way any more.
  virtual void gone() {}
  Event* beginning() { return start(beginning_); }

  template <class Done>
  class Operation final : public Event {
   public:
    explicit Operation(Done done) : done_(done) {}
    // REQUIRES: not under way.
    Event* start(std::shared_ptr<StreamLink> link) {
      link_ = std::move(link);
      return this;
    }
    void complete(bool ok) override {
      const auto link = std::move(link_);
      ((*link).*done_)(ok);
    }

   private:
    Done done_;
    std::shared_ptr<StreamLink> link_;
  };
  using Done = void (StreamLink::*)(bool);

 private:
  template <class One>
  Event* start(One& operation) {
    ++under_way_;
    return operation.start(shared_from_this());
  }
  void on_begun(bool ok);
  void on_begun_event(bool ok);
  void on_read(bool ok);
  void on_written(bool ok);
  void on_end(bool ok);
  void step();
  void next_step();
  void came_back();

  const std::shared_ptr<Session> session_;
  Operation<Done> beginning_{&StreamLink::on_begun_event};
  Operation<Done> reading_{&StreamLink::on_read};
  Operation<Done> writing_{&StreamLink::on_written};
  Operation<Done> ending_{&StreamLink::on_end};

  Serializer steps_;
  // Said from outside of steps_, in the order in which it becomes true.
  std::atomic<bool> open_ = false;      // the call has begun
  std::atomic<bool> failed_ = false;    // it can only end
  std::atomic<bool> read_done_ = true;  // the next read may begin
  std::atomic<bool> write_done_ = true;
  std::atomic<bool> end_done_ = false;
  std::atomic<int> under_way_ = 0;  // operations; none begins after the end
  // Within steps_.
  bool read_under_way_ = false;
  bool write_under_way_ = false;
  bool end_begun_ = false;
  grpc::ByteBuffer received_;
  Frame sent_;
};

}  // namespace convoy::server::transport
