// Splits one stream of mpirun into what the ranks printed, what the supervisors report, and what
// mpirun itself has to say about a job that ended badly.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/report.h"

namespace convoy::cli {

// What a message told about the first failure.
struct Notice {
  int rank = -1;
  std::string host = {};  // empty: not said
  bool aborted = false;   // called MPI_Abort with `code`
  bool signaled = false;  // killed by signal `code`
  int code = 0;
  pid_t supervisor = 0;  // not 0: of the rank, which is not said
};

// Not thread-safe. Bytes go in as they come; everything that is not a report or a known message of
// mpirun comes out unchanged and in order. Bytes that may be the beginning of one of those are held
// until feed() or release() decides.
class StreamFilter {
 public:
  // `token` marks the reports. With keep_messages, mpirun's messages stay in the output.
  StreamFilter(std::string token, std::string mpirun_name, pid_t mpirun_pid, bool keep_messages);

  // Takes bytes and returns what can be printed now.
  std::string feed(std::string_view bytes);
  // Returns what is held, when waiting longer makes no sense (100 ms have passed, or the end came).
  std::string release();
  bool holds() const { return !held_.empty(); }

  // Reports since the last call.
  std::vector<Report> take_reports();
  // The first notice found so far.
  const std::optional<Notice>& notice() const { return notice_; }
  // The first line in which a rank itself said that it ends the job. It stays in the output, and it
  // counts only where nothing else names a rank: MPICH's mpirun does not say who called MPI_Abort.
  const std::optional<Notice>& last_words() const { return last_words_; }
  // All messages of mpirun that were left out of the output.
  const std::string& messages() const { return messages_; }

 private:
  enum class Match { none, partial, complete };

  std::string advance(bool at_end);
  // What begins at `position` of held_: nothing special, perhaps something, or something of
  // `length`.
  Match match_report(std::size_t position, bool at_end, std::size_t* length);
  Match match_message(std::size_t position, bool at_end, std::size_t* length) const;
  void note(std::string_view message);
  void listen(std::string_view line);

  std::string report_start_;
  std::vector<std::string> line_starts_;  // beginnings of mpirun's one-line messages
  std::string own_lines_mark_;            // ":PID] " of its other lines
  bool keep_messages_;
  std::string held_;
  bool at_line_start_ = true;  // of the first byte of held_
  std::vector<Report> reports_;
  std::optional<Notice> notice_;
  std::optional<Notice> last_words_;
  std::string messages_;
};

}  // namespace convoy::cli
