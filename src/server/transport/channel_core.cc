#include "server/transport/channel_core.h"

#include <algorithm>
#include <unordered_set>

#include "convoy/base/error.h"

namespace convoy::server::transport {
namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(1000);
// What is under way is lost with a connection, so that none is given up for its limits before.
constexpr auto kLeastAge = std::chrono::milliseconds(500);

// The lists of callbacks that this thread is in, innermost first.
thread_local ChannelCore::Running* callbacks = nullptr;

}  // namespace

ChannelCore::ChannelCore(ChannelSettings settings, std::unique_ptr<Connector> connector)
    : settings_(std::move(settings)), connector_(std::move(connector)), pause_(kFirstPause) {
  settings_.limits.check();
}

void ChannelCore::start() {
  keeper_ = std::thread([self = shared_from_this()] { self->keep(); });
}

int ChannelCore::finish_lists_around() {
  int count = 0;
  for (Running* list = callbacks; list != nullptr; list = list->outer) {
    if (list->core != this) continue;
    ++count;
    list->go_on();
  }
  return count;
}

void ChannelCore::Running::go_on() {
  while (next < ended.size()) {
    Ended& one = ended[next++];
    const auto callback =
        std::exchange(one.callback, nullptr);  // what it holds ends here, not later
    callback(std::move(one.answer));
  }
}

void ChannelCore::run(std::vector<Ended> ended) {
  if (ended.empty()) return;
  Running list{this, callbacks, std::move(ended)};
  callbacks = &list;
  list.go_on();
  callbacks = list.outer;
  // Notified under the lock: whoever waits may destroy this once it has it.
  const std::lock_guard lock(mutex_);
  --running_;
  changed_.notify_all();
}

std::vector<ChannelCore::Ended> ChannelCore::take_due() {
  if (!due_.empty()) ++running_;
  return std::exchange(due_, {});
}

bool ChannelCore::take(std::uint64_t call, Channel::Callback& callback) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  deadlines_.erase({found->second.deadline, call});
  callback = std::move(found->second.callback);
  calls_.erase(found);
  return true;
}

void ChannelCore::end(std::uint64_t call, Answer::Status status, const std::string& problem) {
  Channel::Callback callback;
  if (take(call, callback)) due_.push_back({std::move(callback), {status, {}, problem}});
}

void ChannelCore::end_all(Answer::Status status, const std::string& problem) {
  while (!calls_.empty()) end(calls_.begin()->first, status, problem);
}

std::string ChannelCore::unreachable() const {
  const std::string at = "server " + connector_->address();
  if (state_ == State::ready) return at + " gave no answer";
  return at + " can't be reached" + (problem_.empty() ? "" : ": " + problem_);
}

void ChannelCore::hand_over(Outgoing& request) {
  const auto found = calls_.find(request.call);
  if (found == calls_.end()) return;
  const std::uint64_t largest = session_->server_limits().largest_message;
  if (request.message.size() > largest && request.call > heard_for_) {
    queued_.push_back(std::move(request));
    renew_at_ = welcomed_at_ + kLeastAge;
    changed_.notify_all();
    return;
  }
  if (request.message.size() > largest) {
    end(request.call, Answer::Status::refused,
        request.method + ": a request of " + std::to_string(request.message.size()) +
            " bytes; the largest that server " + connector_->address() + " takes is " +
            std::to_string(largest));
    return;
  }
  found->second.in_session = session_->send(request);
  if (!found->second.in_session) queued_.push_back(std::move(request));
}

std::uint64_t ChannelCore::call(std::string method, Message request, Clock::time_point deadline,
                                Channel::Callback callback) {
  Outgoing outgoing;
  outgoing.method = std::move(method);
  outgoing.deadline = deadline;
  outgoing.message = std::move(request);
  std::shared_ptr<ClientSession> session;
  std::uint64_t number;
  {
    const std::lock_guard lock(mutex_);
    number = outgoing.call = ++last_call_;
    const bool first = deadlines_.empty() || deadline < deadlines_.begin()->first;
    calls_[outgoing.call] = {std::move(callback), deadline};
    deadlines_.insert({deadline, outgoing.call});
    if (closing_) {  // by a callback of one that the destructor ends
      end(outgoing.call, Answer::Status::closed, "the channel is being closed");
    } else if (state_ == State::ready) {
      session = session_;
      hand_over(outgoing);
    } else {
      queued_.push_back(std::move(outgoing));
    }
    if (first || !due_.empty()) changed_.notify_all();
  }
  if (session) session->wake();
  return number;
}

void ChannelCore::cancel(std::uint64_t call) {
  Channel::Callback callback;  // this and the request end after the lock
  Outgoing unsent;
  std::shared_ptr<ClientSession> session;
  {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(call);
    if (found == calls_.end()) return;
    if (found->second.in_session) session = session_;
    take(call, callback);
    const auto queued = std::find_if(queued_.begin(), queued_.end(),
                                     [&](const Outgoing& request) { return request.call == call; });
    if (queued != queued_.end()) {
      unsent = std::move(*queued);
      queued_.erase(queued);
    }
  }
  if (session) session->abandon(call);
}

void ChannelCore::on_welcome(ClientSession& session) {
  std::deque<Outgoing> queued;  // what is left of it ends after the lock
  {
    const std::lock_guard lock(mutex_);
    if (&session != session_.get() || closing_) return;
    state_ = State::ready;
    pause_ = kFirstPause;
    problem_.clear();
    refused_ = false;
    welcomed_at_ = Clock::now();
    queued.swap(queued_);
    for (Outgoing& request : queued) hand_over(request);
    changed_.notify_all();
  }
  session.wake();
}

void ChannelCore::on_reply(std::uint64_t call, std::uint8_t status, Message message) {
  Ended ended;
  {
    const std::lock_guard lock(mutex_);
    if (!take(call, ended.callback)) return;
    ++running_;
  }
  if (status == 0) {
    ended.answer = {Answer::Status::done, std::move(message), ""};
  } else {
    const auto text = message.gather();
    ended.answer = {status == kUnanswered ? Answer::Status::lost : Answer::Status::failed,
                    {},
                    std::string(reinterpret_cast<const char*>(text.data()), text.size())};
  }
  std::vector<Ended> one;
  one.push_back(std::move(ended));
  run(std::move(one));
}

void ChannelCore::on_ended(ClientSession& session, const std::string& why, bool refused) {
  std::vector<Outgoing> requests = session.take_requests();
  std::deque<Outgoing> queued;
  std::vector<Ended> ended;
  {
    const std::lock_guard lock(mutex_);
    if (&session == session_.get()) {
      const bool was_ready = state_ == State::ready;
      state_ = State::idle;
      session_.reset();
      refused_ = refused;
      problem_ = problem_.empty() || was_ready || refused ? why : problem_;
      // What says more than "it failed" is found out by the keeper.
      diagnose_ = !was_ready && !refused;
      pause_ = refused ? kLongestPause : pause_;
      renew_at_ = Clock::time_point::max();
      const bool renewing = std::exchange(renewing_, false) && !refused;
      next_attempt_ = Clock::now() + (renewing ? Clock::duration(0) : pause_);
      pause_ = std::min<Clock::duration>(2 * pause_, kLongestPause);
      std::sort(requests.begin(), requests.end(),
                [](const Outgoing& a, const Outgoing& b) { return a.call < b.call; });
      std::unordered_set<std::uint64_t> unsent;
      for (const Outgoing& request : requests) {
        if (!request.begun && calls_.contains(request.call)) unsent.insert(request.call);
      }
      std::vector<std::uint64_t> lost;
      for (auto& [number, call] : calls_) {
        if (call.in_session && !unsent.contains(number)) lost.push_back(number);
        call.in_session = false;
      }
      for (const std::uint64_t call : lost)
        end(call, Answer::Status::lost,
            "server " + connector_->address() +
                (renewing ? ": the connection was made anew, for the server may take larger "
                            "messages by now"
                          : ": the connection broke: " + why));
      for (Outgoing& request : requests) {
        if (unsent.contains(request.call)) queued_.push_back(std::move(request));
      }
      if (refused) {
        end_all(Answer::Status::refused,
                "server " + connector_->address() + " refuses this client: " + why);
        queued.swap(queued_);
      }
      ended = take_due();
    }
    changed_.notify_all();
  }
  run(std::move(ended));
  const std::lock_guard lock(mutex_);
  --sessions_;
  changed_.notify_all();
}

void ChannelCore::wait_connected(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline,
                      [&] { return state_ == State::ready || refused_ || closing_; });
  if (state_ == State::ready) return;
  if (refused_) {
    throw Failure("server " + connector_->address() + " refuses this client: " + problem_);
  }
  throw Failure(unreachable());
}

bool ChannelCore::shares_memory() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::ready && session_->shares_memory();
}

}  // namespace convoy::server::transport
