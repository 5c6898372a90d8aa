// What ranks and roles print, on its way to the user.
#pragma once

#include <string>
#include <string_view>

namespace convoy::cli {

// Whether a bar stands on the terminal's last line, for all streams that lead there.
struct TerminalLine {
  bool open = false;
};

// Collects whole lines from many streams for one descriptor. Never blocks: the job has signals to
// answer while a terminal is slow.
class LineOutput {
 public:
  // `line` outlives this object.
  LineOutput(int target, TerminalLine& line) : target_(target), line_(line) {}

  // Lines, or their parts in order. A bar gives way.
  void add(std::string_view text);
  // Bytes that may leave a bar behind.
  void draw(std::string_view bytes);
  // More than a slow reader should make anybody keep: those who have more should wait.
  bool full() const { return pending_.size() - written_ >= kMost; }
  // To wait for with poll(); -1 if there is nothing to write.
  int writable_fd() const { return pending_.empty() ? -1 : target_; }
  // Writes what can be written now. If nobody reads any more, everything is dropped from then on:
  // the job goes on, its results are elsewhere.
  void advance();

 private:
  static constexpr std::size_t kMost = 1 << 18;

  int target_;
  TerminalLine& line_;
  bool closed_ = false;
  std::string pending_;
  std::size_t written_ = 0;  // of pending_
};

// However long it takes; a signal other than SIGCHLD from this signalfd ends it.
void print_the_rest(LineOutput& out, LineOutput& err, int signals);

}  // namespace convoy::cli
