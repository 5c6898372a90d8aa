#include "cli/launch/relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "cli/launch/child.h"

namespace convoy::cli {
namespace {

StreamFilter filter_of_a_job() { return StreamFilter("token", "mpirun", 1, false); }

// A terminal that is slow, or `| less` that nobody scrolls.
TEST(Relay, NeverWaitsForWhoeverReadsItsTarget) {
  Pipe source = make_pipe(), target = make_pipe();
  fcntl(source.writing.get(), F_SETFL, O_NONBLOCK);
  TerminalLine line;
  LineOutput output(target.writing.get(), line);
  Relay relay(std::move(source.reading), output, filter_of_a_job());
  constexpr int kMost = 10'000;
  std::string sent;
  const auto send = [&](int i) {
    const std::string piece = std::string(4000, 'x') + std::to_string(i) + "\n";
    const ssize_t written = write(source.writing.get(), piece.data(), piece.size());
    ASSERT_EQ(written, static_cast<ssize_t>(piece.size())) << i;
    sent += piece;
  };
  int i = 0;
  for (; relay.source() >= 0 && i < kMost; ++i) {
    send(i);
    relay.advance();
    output.advance();
  }
  EXPECT_LT(i, kMost) << "it has taken all without end";
  EXPECT_TRUE(relay.open());
  send(i);  // stays where it is
  source.writing.reset();
  relay.advance();
  EXPECT_TRUE(relay.open());

  std::string received;
  while (received.size() < sent.size()) {
    relay.advance();
    output.advance();
    ASSERT_TRUE(read_some(target.reading, received));
  }
  EXPECT_EQ(received, sent);
  EXPECT_EQ(output.writable_fd(), -1);
}

// At the end of a job, when its last reports lie behind what nobody has read.
TEST(Relay, ReadsTheRestThoughItsTargetIsFull) {
  Pipe source = make_pipe(), target = make_pipe();
  TerminalLine line;
  LineOutput output(target.writing.get(), line);
  while (!output.full()) output.add(std::string(4096, '-'));
  Relay relay(std::move(source.reading), output, filter_of_a_job());
  EXPECT_FALSE(relay.advance_whole(std::chrono::milliseconds(0)));
  Report last;
  last.rank = 3;
  const std::string report = format_report(last, "token");
  ASSERT_GT(write(source.writing.get(), report.data(), report.size()), 0);
  source.writing.reset();
  relay.advance();
  EXPECT_TRUE(relay.filter().take_reports().empty());
  EXPECT_TRUE(relay.advance_whole(std::chrono::milliseconds(0)));
  const auto reports = relay.filter().take_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].rank, 3);
}

}  // namespace
}  // namespace convoy::cli
