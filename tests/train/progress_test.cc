#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/train/metrics.h"
#include "tests/base/scratch.h"

namespace convoy::train {
namespace {

// What is written to a pipe while it lives.
class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_) != 0) throw std::runtime_error("pipe");
  }
  ~Pipe() { ::close(ends_[0]); }
  int fd() const { return ends_[1]; }
  std::string finish() {
    ::close(ends_[1]);
    std::string text;
    char piece[4096];
    for (ssize_t got; (got = ::read(ends_[0], piece, sizeof piece)) > 0;) {
      text.append(piece, static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  int ends_[2];
};

int times(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

TEST(Progress, TheLineOfATerminal) {
  const Progress progress({.columns = 100, .interval_s = 1, .fd = -1}, "images");
  EXPECT_EQ(
      progress.render("epoch 2/10", 5400, 12'000, "loss 0.532", 1234.5),
      "epoch 2/10  45% [============>               ]  loss 0.532  1234 images/s  5.35 s left");
  EXPECT_EQ(progress.render("epoch", 0, 100, "", 0), "epoch   0% [                            ]");
  EXPECT_EQ(progress.render("epoch", 100, 100, "", 10),
            "epoch 100% [============================]  10 images/s");
  EXPECT_EQ(progress.render("waiting", 12, 0, "", 0.5), "waiting  12 images  0.50 images/s");
}

TEST(Progress, ThePlainLine) {
  const Progress progress({.columns = 0, .interval_s = 1, .fd = -1}, "images");
  EXPECT_EQ(progress.render("epoch 2/10", 5400, 12'000, "loss 0.532", 123.4),
            "epoch 2/10  45%  5400/12000 images  loss 0.532  123 images/s  53.5 s left");
}

TEST(Progress, NeverWraps) {
  const std::string label = "epoch 2/10 caf\u00e9 \u65e5\u672c\u8a9e";
  for (int columns = 1; columns <= 160; ++columns) {
    const Progress progress({.columns = columns, .interval_s = 1, .fd = -1}, "images");
    for (const double done : {0.0, 1.0, 59.0, 60.0, 1e9, -5.0}) {
      const std::string line = progress.render(label, done, 60, "loss 0.5\nnew\x1b[31m line", 12.5);
      int width = 0;
      for (const char c : line) {
        const auto byte = static_cast<unsigned char>(c);
        EXPECT_GE(byte, 0x20) << "control character";
        // The three wide characters have lead bytes e6 and e8.
        width += byte >= 0xe3 ? 2 : (byte & 0xc0) == 0x80 ? 0 : 1;
      }
      ASSERT_LT(width, columns) << line;
    }
  }
}

TEST(Progress, ATerminalSeesOneLine) {
  Pipe pipe;
  const auto start = Clock::now();
  {
    Progress progress({.columns = 60, .interval_s = 1, .fd = pipe.fd()}, "images");
    for (int i = 1; i <= 1000; ++i) progress.update("epoch", i, 1000, "");
    progress.line("evaluation: 98%");
  }
  const std::string text = pipe.finish();
  // The first, some in between, and the line that stays; no bar from before it below.
  EXPECT_TRUE(text.starts_with("\repoch   0% ["));
  EXPECT_TRUE(text.ends_with("\revaluation: 98%\x1b[K\n"));
  EXPECT_LE(times(text, "\x1b[K"), 2 + 10 * seconds_since(start)) << text;
}

TEST(Progress, TheLastStateIsShown) {
  Pipe pipe;
  {
    Progress progress({.columns = 60, .interval_s = 1, .fd = pipe.fd()}, "images");
    for (int i = 1; i <= 10; ++i) progress.update("epoch", i, 10, "");
  }
  EXPECT_NE(pipe.finish().find("epoch 100%"), std::string::npos);
}

TEST(Progress, ElsewhereALineNowAndThen) {
  Pipe pipe;
  const auto start = Clock::now();
  {
    Progress progress({.columns = 0, .interval_s = 0.05, .fd = pipe.fd()}, "images");
    progress.update("epoch", 1, 1000, "");
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    for (int i = 2; i <= 10; ++i) progress.update("epoch", i, 1000, "");
    progress.line("done");
  }
  const std::string text = pipe.finish();
  EXPECT_TRUE(text.starts_with("epoch   0%  ")) << text;
  EXPECT_EQ(times(text, "epoch   0%  2/1000 images  "), 1) << text;
  EXPECT_TRUE(text.ends_with("\ndone\n")) << text;
  // One in each 0.05 s at most: on a quiet machine no other than these two.
  EXPECT_LE(times(text, "\n"), 1 + seconds_since(start) / 0.05) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

// The rate goes on over the end of an epoch, where `done` begins again.
TEST(Progress, RateOverEpochs) {
  Pipe pipe;
  const auto start = Clock::now();
  {
    Progress progress({.columns = 0, .interval_s = 0.15, .fd = pipe.fd()}, "images");
    for (int i = 0; i < 20; ++i) {
      progress.update("epoch " + std::to_string(i / 5), 100.0 * (i % 5 + 1), 500, "");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  const double took = seconds_since(start);
  const std::string text = pipe.finish();
  std::istringstream lines(text);
  int with_rates = 0;
  for (std::string line; std::getline(lines, line);) {
    int epoch = 0, percent = 0;
    double done = 0, rate = 0;
    if (std::sscanf(line.c_str(), "epoch %d %d%% %lf/500 images %lf images/s", &epoch, &percent,
                    &done, &rate) != 4)
      continue;
    ++with_rates;
    // What came after the first update, which took at least 10 ms for 100 images, and no longer
    // than all. Rates are rounded.
    const double since_first = 500 * epoch + done - 100;
    EXPECT_GE(rate, 0.99 * since_first / took) << line;
    EXPECT_LE(rate, 10'000) << line;
  }
  EXPECT_GE(with_rates, 1) << text;
}

TEST(Progress, WhatAnEarlierRunDidIsNotInTheRate) {
  Pipe pipe;
  {
    Progress progress({.columns = 0, .interval_s = 0.05, .fd = pipe.fd()}, "images");
    progress.update("epoch", 1e9, 2e9, "");
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    progress.update("epoch", 1e9 + 1, 2e9, "");
  }
  const std::string text = pipe.finish();
  const std::size_t at = text.find("images/s");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_LT(std::atof(text.c_str() + text.rfind("  ", at)), 20) << text;
}

TEST(Progress, NobodyReads) {
  Pipe pipe;
  const int fd = pipe.fd();
  Progress progress({.columns = 40, .interval_s = 1, .fd = fd}, "images");
  ::close(fd);
  progress.update("epoch", 1, 2, "");
  progress.line("text");
}

TEST(Progress, ColumnsOfTheTerminalElsewhere) {
  if (::isatty(STDOUT_FILENO) == 1) GTEST_SKIP() << "standard output is a terminal";
  const auto columns = [](const char* value, const char* term) {
    ::setenv("CONVOY_COLUMNS", value, 1);
    ::setenv("TERM", term, 1);
    return progress_on_standard_output().columns;
  };
  EXPECT_EQ(columns("120", "xterm"), 120);
  EXPECT_EQ(columns("120", "dumb"), 0);
  for (const char* value : {"", "0", "-5", "x"}) EXPECT_EQ(columns(value, "xterm"), 0) << value;
  ::unsetenv("CONVOY_COLUMNS");
  EXPECT_EQ(progress_on_standard_output().columns, 0);
}

}  // namespace
}  // namespace convoy::train
