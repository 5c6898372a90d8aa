// What the supervisors tell `convoy run`: one line each on the standard error that mpirun forwards.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace convoy::cli {

// Starts every report line. No text a program prints has this byte followed by the job's token.
inline constexpr char kReportMark = '\x1e';

// A program that wants to be started again later (it was told to stop and has written a checkpoint)
// exits with this: EX_TEMPFAIL of sysexits.h. `convoy run` passes it on.
inline constexpr int kExitRequeue = 75;

// Who asked a rank to end before it did.
enum class Asked { nobody, mpirun, another_process };

struct Report {
  enum class Kind {
    supervised,   // the supervisor stands, the program is about to start
    ended,        // the program has ended
    cannot_start  // it could not be started, or its log can't be written; `text` says why
  };
  Kind kind = Kind::ended;
  int rank = 0;
  std::string host;
  pid_t supervisor = 0;
  pid_t pid = 0;
  bool signaled = false;  // code is a signal, otherwise an exit status
  int code = 0;
  Asked asked = Asked::nobody;
  std::uint64_t time_ns = 0;  // when the supervisor saw it; comparable on one host only
  std::string text;

  bool failed() const { return kind != Kind::supervised && (signaled || code != 0); }
};

// 16 hexadecimal digits that nobody can guess: for the token of a job.
std::string random_name();

// One line with the mark and the token in front and a newline at the end, shorter than PIPE_BUF.
std::string format_report(const Report& report, std::string_view token);

// Reads what follows the token, without the newline. Nothing if it is not a report.
std::optional<Report> parse_report(std::string_view line);

}  // namespace convoy::cli
