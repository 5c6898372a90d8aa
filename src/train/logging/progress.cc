#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "convoy/base/clock.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/train/metrics.h"

namespace convoy::train {
namespace {

constexpr double kRateWindow_s = 10;
constexpr double kTerminalInterval_s = 0.1;
constexpr int kShortestBar = 8;
constexpr int kLongestBar = 30;

// Columns of the terminal behind a descriptor; 0 when there is none.
int terminal_columns(int fd) {
  if (::isatty(fd) != 1) return 0;
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

// One code point of UTF-8 text (or one stray byte) at `at`, and the columns it may take: two from
// the Hangul block on, which is at least what terminals use.
struct Glyph {
  std::size_t bytes;
  int columns;
};

Glyph glyph_at(const std::string& text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (at + i >= text.size() || (static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) {
      bytes = 1;
    }
  }
  const bool wide = bytes == 4 || (bytes == 3 && first >= 0xe2) ||
                    (bytes == 3 && static_cast<unsigned char>(text[at + 1]) >= 0x84);
  return {bytes, wide ? 2 : 1};
}

int width_of(const std::string& text) {
  int columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Glyph glyph = glyph_at(text, at);
    columns += glyph.columns;
    at += glyph.bytes;
  }
  return columns;
}

std::string cut(const std::string& text, int columns) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Glyph glyph = glyph_at(text, at);
    columns -= glyph.columns;
    if (columns < 0) break;
    at += glyph.bytes;
  }
  return text.substr(0, at);
}

// Control characters would move the cursor.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

// Three digits where they say something, no exponent.
std::string short_number(double value) {
  char text[48];
  const int decimals = value >= 100 || value == std::floor(value) ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f", decimals, std::min(value, 1e15));
  return text;
}

std::string bar_of(double part, int columns) {
  const int inside = columns - 2;
  const int full = static_cast<int>(std::floor(part * inside));
  std::string bar(static_cast<std::size_t>(inside), ' ');
  std::fill(bar.begin(), bar.begin() + full, '=');
  if (full < inside && full > 0) bar[static_cast<std::size_t>(full)] = '>';
  return "[" + bar + "]";
}

void put(int fd, const std::string& text) {
  // If nobody reads any more, that is no reason to end the work.
  (void)write_all(fd, std::as_bytes(std::span(text)));
}

double seconds_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

}  // namespace

ProgressOptions progress_on_standard_output() {
  ProgressOptions options;
  // The launcher's word counts: mpirun gives rank 0 a terminal of its own, whatever is behind it.
  const std::string told = environment("CONVOY_COLUMNS");
  const bool rank = !environment("OMPI_COMM_WORLD_RANK").empty();
  if (!told.empty()) {
    options.columns = std::clamp(std::atoi(told.c_str()), 0, 1000);
  } else if (!rank) {
    options.columns = terminal_columns(STDOUT_FILENO);
  }
  if (environment("TERM") == "dumb") options.columns = 0;
  return options;
}

struct Progress::Impl {
  ProgressOptions options;
  std::string unit;
  bool follows_terminal = false;  // asks for its width again, since windows are resized

  Clock::time_point shown_at = Clock::now();
  bool ever_shown = false;
  std::string label;
  double last_done = 0;
  double total_done = 0;  // over all labels, so that the rate outlives the end of an epoch
  std::deque<std::pair<Clock::time_point, double>> history;  // of total_done
  std::string pending;                                       // the newest line
  bool dirty = false;                                        // it is not on the terminal
  bool line_open = false;                                    // the cursor stands behind a bar

  int columns() const {
    const int now = follows_terminal ? terminal_columns(options.fd) : 0;
    return now > 0 ? now : options.columns;
  }

  double rate(const std::string& new_label, double done, Clock::time_point now) {
    // What was done before the first update, by the run that is resumed, say, took no time of ours.
    const bool first = history.empty();
    const bool goes_on = new_label == label && done >= last_done;
    if (!first) total_done += std::max(0.0, goes_on ? done - last_done : done);
    last_done = done;
    label = new_label;
    history.emplace_back(now, total_done);
    while (history.size() > 2 && seconds_between(history[1].first, now) > kRateWindow_s) {
      history.pop_front();
    }
    const double seconds = seconds_between(history.front().first, now);
    return seconds > 0 ? (total_done - history.front().second) / seconds : 0;
  }

  void show() {
    put(options.fd, "\r" + pending + "\x1b[K");
    dirty = false;
    line_open = true;
  }
};

Progress::Progress(const ProgressOptions& options, std::string unit)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->unit = printable(std::move(unit));
  impl_->follows_terminal = options.columns > 0 && terminal_columns(options.fd) == options.columns;
}

Progress::~Progress() {
  if (impl_->options.columns <= 0) return;
  if (impl_->dirty) impl_->show();
  if (impl_->line_open) put(impl_->options.fd, "\n");
}

void Progress::update(const std::string& label, double done, double total,
                      const std::string& text) {
  const bool terminal = impl_->options.columns > 0;
  const Clock::time_point now = Clock::now();
  const double rate = impl_->rate(label, done, now);
  const double interval = terminal ? kTerminalInterval_s : impl_->options.interval_s;
  const bool due = seconds_between(impl_->shown_at, now) >= interval;
  if (terminal) {
    impl_->pending = render(label, done, total, text, rate);
    impl_->dirty = true;
    if (!due && impl_->ever_shown) return;
    impl_->show();
  } else {
    if (!due) return;
    put(impl_->options.fd, render(label, done, total, text, rate) + "\n");
  }
  impl_->ever_shown = true;
  impl_->shown_at = now;
}

void Progress::line(const std::string& text) {
  if (impl_->options.columns <= 0) return put(impl_->options.fd, text + "\n");
  put(impl_->options.fd, "\r" + text + "\x1b[K\n");
  // The next update draws the bar again; the one of before would be out of date.
  impl_->line_open = false;
  impl_->pending.clear();
  impl_->dirty = false;
}

std::string Progress::render(const std::string& label, double done, double total,
                             const std::string& text, double units_per_s) const {
  const int columns = impl_->columns();
  const bool known = total > 0;
  const double part = known ? std::clamp(done / total, 0.0, 1.0) : 0;
  std::string front = printable(label);
  if (known) {
    char percent[16];
    std::snprintf(percent, sizeof percent, " %3d%%", static_cast<int>(std::floor(part * 100)));
    front += percent;
  }
  std::string back;
  const auto add = [&back](const std::string& piece) {
    if (!piece.empty()) back += "  " + piece;
  };
  if (columns <= 0 || !known) {
    add(short_number(done) + (known ? std::string("/").append(short_number(total)) : "") + " " +
        impl_->unit);
  }
  add(printable(text));
  if (units_per_s > 0) {
    add(short_number(units_per_s) + " " + impl_->unit + "/s");
    if (known && done < total) add(format_seconds((total - done) / units_per_s) + " left");
  }
  if (columns <= 0) return front + back;
  // The last column stays free: some terminals wrap as soon as it is written to.
  const int room = columns - 1;
  const int bar = std::min(kLongestBar, room - width_of(front) - width_of(back) - 1);
  if (known && bar >= kShortestBar) front.append(" ").append(bar_of(part, bar));
  return cut(front + back, room);
}

}  // namespace convoy::train
