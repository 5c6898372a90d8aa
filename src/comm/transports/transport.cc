#include "convoy/comm/transport.h"

#include <stdexcept>

#include "convoy/base/error.h"

namespace convoy::comm {

void Transport::check_length(std::size_t bytes) const {
  if (bytes > most_bytes()) {
    throw std::length_error("a message of " + std::to_string(bytes) + " bytes; the most is " +
                            std::to_string(most_bytes()));
  }
}

Ticket Transport::send(int to, std::uint32_t tag, std::span<const std::byte> data) {
  check_length(data.size());
  ++traffic_.messages_sent;
  traffic_.bytes_sent += data.size();
  return Ticket(*this, start_send(to, tag, data), to, true);
}

Ticket Transport::receive(int from, std::uint32_t tag, std::span<std::byte> data) {
  check_length(data.size());
  traffic_.bytes_received += data.size();
  return Ticket(*this, start_receive(from, tag, data), from, false);
}

void Transport::allreduce(Buffer /*data*/, ReduceOp /*op*/) {
  throw UsageError(
      "these ranks have no allreduce but Convoy's; mpirun or srun starts ranks of MPI");
}

Ticket::~Ticket() {
  if (request_ != nullptr) transport_->cancel(request_);
}

bool Ticket::poll() {
  if (request_ == nullptr) return true;
  // A request that throws is gone: it must not be cancelled afterwards.
  void* request = std::exchange(request_, nullptr);
  if (!transport_->poll(request)) request_ = request;
  return request_ == nullptr;
}

}  // namespace convoy::comm
