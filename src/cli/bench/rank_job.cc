#include "cli/bench/rank_job.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

Failure socket_failure(const std::string& what) {
  return Failure("the socket between a benchmark and its ranks: can't " + what + ": " +
                 std::strerror(errno));
}

sockaddr_un address_of_turns(const std::string& folder) {
  const std::string path = folder + "/turns";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw UsageError("the path of a socket, " + path + ", is too long: set TMPDIR to a folder " +
                     "with a shorter one");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Descriptor new_socket() {
  Descriptor made(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!made.open()) throw socket_failure("make it");
  return made;
}

LineChannel channel_of(Descriptor connected) {
  Descriptor writing(fcntl(connected.get(), F_DUPFD_CLOEXEC, 0));
  if (!writing.open()) throw socket_failure("use it");
  return {std::move(writing), std::move(connected)};
}

}  // namespace

RankJob::RankJob(std::string row, const std::vector<std::string>& command,
                 const RowEnvironment& environment, int ranks, const std::string& folder)
    : row_(std::move(row)),
      channels_(static_cast<std::size_t>(ranks)),
      places_(static_cast<std::size_t>(ranks)) {
  const sockaddr_un address = address_of_turns(folder);
  const Descriptor listener = new_socket();
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), ranks) != 0)
    throw socket_failure("listen at it");
  process_.emplace(row_, command, environment);
  const auto deadline = Clock::now() + kRowPatience;
  for (int left = ranks; left > 0; --left) welcome(listener.get(), deadline);
}

void RankJob::welcome(int listener, Clock::time_point deadline) {
  const auto late = [this] {
    return Failure("row '" + row_ + "': its ranks are not ready within ten minutes");
  };
  for (;;) {
    std::array<pollfd, 2> wait{{{listener, POLLIN, 0}, {process_->output(), POLLIN, 0}}};
    if (!wait_for_input(wait, deadline)) throw late();
    if (wait[0].revents != 0) break;
    // What it prints is for nobody; the end of that says that it has ended.
    std::array<char, 4096> printed{};
    if (::read(process_->output(), printed.data(), printed.size()) <= 0) process_->tell_end();
  }
  Descriptor connected(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!connected.open()) throw socket_failure("accept a rank");
  LineChannel channel = channel_of(std::move(connected));
  std::string text;
  const LineChannel::Got got = channel.read_line(text, deadline);
  if (got == LineChannel::Got::end) process_->tell_end();
  if (got == LineChannel::Got::nothing) throw late();
  try {
    const auto said = nlohmann::json::parse(text);
    const auto rank = said.at("rank").get<std::size_t>();
    places_.at(rank) = {static_cast<int>(rank), said.at("cores").get<std::vector<int>>(),
                        said.at("threads").get<int>()};
    channels_.at(rank) = std::move(channel);
  } catch (const std::exception&) {
    throw Failure("row '" + row_ + "': a rank begins with '" + text.substr(0, 200) + "'");
  }
}

std::vector<RowAnswer> RankJob::run(int steps) {
  for (const LineChannel& channel : channels_) channel.write_line(std::to_string(steps));
  std::vector<RowAnswer> answers;
  const auto deadline = Clock::now() + kRowPatience;
  for (LineChannel& channel : channels_) {
    std::string text;
    const LineChannel::Got got = channel.read_line(text, deadline);
    if (got == LineChannel::Got::end) process_->tell_end();
    if (got == LineChannel::Got::nothing)
      throw Failure("row '" + row_ + "' did not answer within ten minutes");
    answers.push_back(parse_row_answer(row_, text));
  }
  return answers;
}

LineChannel join_turns(const std::string& folder, const RankPlace& place) {
  const sockaddr_un address = address_of_turns(folder);
  Descriptor connected = new_socket();
  if (::connect(connected.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw socket_failure("join it in " + folder);
  LineChannel channel = channel_of(std::move(connected));
  channel.write_line(
      nlohmann::json{{"rank", place.rank}, {"cores", place.cores}, {"threads", place.threads}}
          .dump());
  return channel;
}

}  // namespace convoy::cli
