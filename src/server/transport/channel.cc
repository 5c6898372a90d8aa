#include "server/transport/channel.h"

#include <utility>

#include "convoy/base/error.h"
#include "server/transport/channel_core.h"

namespace convoy::server::transport {

Channel::Channel(ChannelSettings settings, std::unique_ptr<Connector> connector)
    : core_(std::make_shared<ChannelCore>(std::move(settings), std::move(connector))) {
  core_->start();
}

Channel::~Channel() { core_->close(); }

std::uint64_t Channel::call(std::string method, Message request, Clock::time_point deadline,
                            Callback callback) {
  constexpr std::size_t kLongest = 256;
  if (method.empty() || method.size() > kLongest)
    throw UsageError("the name of a method has 1 to 256 characters, not " +
                     std::to_string(method.size()));
  return core_->call(std::move(method), std::move(request), deadline, std::move(callback));
}

std::future<Answer> Channel::call(std::string method, Message request, Clock::time_point deadline) {
  auto promise = std::make_shared<std::promise<Answer>>();
  auto future = promise->get_future();
  call(std::move(method), std::move(request), deadline,
       [promise](Answer answer) { promise->set_value(std::move(answer)); });
  return future;
}

void Channel::cancel(std::uint64_t call) { core_->cancel(call); }

void Channel::wait_connected(Clock::time_point deadline) { core_->wait_connected(deadline); }

bool Channel::shares_memory() const { return core_->shares_memory(); }

}  // namespace convoy::server::transport
