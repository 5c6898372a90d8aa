#include "cli/launch/filter.h"

#include <algorithm>
#include <array>
#include <regex>
#include <utility>

namespace convoy::cli {
namespace {

// Open MPI frames its messages with lines of 74 dashes, MPICH with lines of 83 equal signs.
const std::string kDashes = std::string(74, '-') + "\n";
const std::string kEquals = std::string(83, '=') + "\n";
constexpr std::string_view kMpichTitle =
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n";
constexpr std::string_view kMpichEnd = "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: ";
constexpr std::size_t kLongestMessage = 8192;
constexpr std::size_t kLongestReport = 4096;
constexpr std::size_t kLongestHost = 300;

// A framed text is mpirun's view of how the job ended if it holds one of these; other framed texts
// (warnings of an MPI library, tables of a program) are the user's business.
constexpr std::array<std::string_view, 6> kObituaries = {
    "Primary job  terminated normally, but",
    "noticed that process rank",
    "detected that one or more processes exited",
    "MPI_ABORT was invoked on rank",
    "has exited due to process rank",
    "noticed that the job aborted, but has no info"};

// Which of line_starts_ that is.
constexpr std::size_t kAbort = 1;

// Sent by MPICH after its frame.
constexpr std::array<std::string_view, 2> kMpichAdvice = {
    "This typically refers to a problem with your application.\n",
    "Please see the FAQ page for debugging suggestions\n"};

bool begins_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// `text` is shorter than `start` and could still become it.
bool may_become(std::string_view text, std::string_view start) {
  return text.size() < start.size() && begins_with(start, text);
}

}  // namespace

StreamFilter::StreamFilter(std::string token, std::string mpirun_name, pid_t mpirun_pid,
                           bool keep_messages)
    : report_start_(kReportMark + std::move(token) + " "),
      line_starts_{mpirun_name + ": Forwarding signal ",
                   mpirun_name + ": abort is already in progress", "[mpiexec@", "[proxy:"},
      own_lines_mark_(std::string(":").append(std::to_string(mpirun_pid)).append("] ")),
      keep_messages_(keep_messages) {}

std::string StreamFilter::feed(std::string_view bytes) {
  held_ += bytes;
  return advance(false);
}

std::string StreamFilter::release() { return advance(true); }

std::vector<Report> StreamFilter::take_reports() { return std::exchange(reports_, {}); }

std::string StreamFilter::advance(bool at_end) {
  std::string out;
  std::size_t position = 0;
  std::size_t plain_begin = 0;
  // Only these bytes begin something special, so that plain text is passed over fast.
  const auto next_candidate = [&](std::size_t from) {
    while (from < held_.size()) {
      const char c = held_[from];
      const bool line_start = from == 0 ? at_line_start_ : held_[from - 1] == '\n';
      if (c == kReportMark || c == '-' || (line_start && c != ' ')) return from;
      ++from;
    }
    return held_.size();
  };
  const auto drop = [&](std::size_t length) {
    out.append(held_, plain_begin, position - plain_begin);
    if (position > 0) at_line_start_ = held_[position - 1] == '\n';
    if (length > 0) at_line_start_ = true;
    held_.erase(0, position + length);
    position = plain_begin = 0;
  };
  for (position = next_candidate(0); position < held_.size(); position = next_candidate(position)) {
    std::size_t length = 0;
    Match match = match_report(position, at_end, &length);
    if (match == Match::complete) {
      const std::string_view line = std::string_view(held_).substr(position, length);
      if (auto report =
              parse_report(line.substr(report_start_.size(), length - report_start_.size() - 1))) {
        reports_.push_back(std::move(*report));
      }
      drop(length);
      continue;
    }
    if (match == Match::none) match = match_message(position, at_end, &length);
    if (match == Match::complete) {
      note(std::string_view(held_).substr(position, length));
      if (keep_messages_) {
        position += length;
      } else {
        messages_.append(held_, position, length);
        drop(length);
      }
      continue;
    }
    if (match == Match::partial) break;
    if (position == 0 ? at_line_start_ : held_[position - 1] == '\n') {
      const std::string_view rest = std::string_view(held_).substr(position);
      listen(rest.substr(0, rest.find('\n')));
    }
    // A run of dashes that is no frame: skip all of it, or each dash would be tried again.
    const std::size_t run_end =
        held_[position] == '-' ? held_.find_first_not_of('-', position) : position + 1;
    position = std::min(run_end, held_.size());
  }
  drop(0);
  return out;
}

StreamFilter::Match StreamFilter::match_report(std::size_t position, bool at_end,
                                               std::size_t* length) {
  const std::string_view rest = std::string_view(held_).substr(position);
  if (may_become(rest, report_start_)) return at_end ? Match::none : Match::partial;
  if (!begins_with(rest, report_start_)) return Match::none;
  const std::size_t end = rest.substr(0, kLongestReport).find('\n');
  if (end == std::string_view::npos) {
    return at_end || rest.size() >= kLongestReport ? Match::none : Match::partial;
  }
  *length = end + 1;
  return Match::complete;
}

StreamFilter::Match StreamFilter::match_message(std::size_t position, bool at_end,
                                                std::size_t* length) const {
  const std::string_view rest = std::string_view(held_).substr(position);
  const Match undecided = at_end || rest.size() >= kLongestMessage ? Match::none : Match::partial;

  if (rest.front() == '-') {
    // The rank may have died in the middle of a line: the frame can begin anywhere, but it ends a
    // line.
    if (may_become(rest, kDashes)) return undecided;
    if (!begins_with(rest, kDashes)) return Match::none;
    const std::size_t end = rest.find("\n" + kDashes, kDashes.size() - 1);
    if (end == std::string_view::npos) return undecided;
    *length = end + 1 + kDashes.size();
    const std::string_view text = rest.substr(0, *length);
    const bool obituary = std::any_of(
        kObituaries.begin(), kObituaries.end(),
        [&](std::string_view phrase) { return text.find(phrase) != std::string_view::npos; });
    return obituary ? Match::complete : Match::none;
  }

  const bool line_start = position == 0 ? at_line_start_ : held_[position - 1] == '\n';
  if (!line_start) return Match::none;

  if (rest.front() == '=' || rest.front() == '\n') {
    // MPICH puts an empty line before its frame.
    std::string head(rest.front() == '\n' ? 1 : 0, '\n');
    head.append(kEquals).append(kMpichTitle);
    if (may_become(rest, head)) return undecided;
    if (!begins_with(rest, head)) return Match::none;
    std::size_t end = rest.find(kMpichEnd);
    if (end == std::string_view::npos || (end = rest.find('\n', end)) == std::string_view::npos) {
      return undecided;
    }
    ++end;
    for (std::string_view advice : kMpichAdvice) {
      if (begins_with(rest.substr(end), advice)) {
        end += advice.size();
      } else if (may_become(rest.substr(end), advice) && undecided == Match::partial) {
        return undecided;
      }
    }
    *length = end;
    return Match::complete;
  }

  const std::size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  bool known = false;
  for (const std::string& start : line_starts_) {
    if (may_become(line, start) && end == std::string_view::npos) return undecided;
    known = known || begins_with(line, start);
  }
  // "[host:pid] 1 more process has sent help message ...", with mpirun's own pid.
  if (rest.front() == '[') {
    const std::size_t mark = line.find(own_lines_mark_);
    known = known || (mark != std::string_view::npos && mark == line.find(':'));
    if (!known && end == std::string_view::npos && line.size() < kLongestHost &&
        line.find("] ") == std::string_view::npos) {
      return undecided;
    }
  }
  if (!known) return Match::none;
  if (end == std::string_view::npos) return undecided;
  *length = end + 1;
  if (begins_with(line, line_starts_[kAbort])) {  // an empty line follows
    if (rest.size() == *length && undecided == Match::partial) return undecided;
    if (begins_with(rest.substr(*length), "\n")) ++*length;
  }
  return Match::complete;
}

void StreamFilter::note(std::string_view message) {
  if (notice_) return;
  static const std::regex aborted(
      R"(MPI_ABORT was invoked on rank (\d+)[^]*with errorcode (-?\d+))");
  static const std::regex died(
      R"(noticed that process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+))");
  std::cmatch match;
  static const std::regex mpich(
      R"(PID (\d+) RUNNING AT (\S+)[^]*EXIT STRING: [^\n]*\(signal (\d+)\))");
  const auto matches = [&](const std::regex& pattern) {
    return std::regex_search(message.begin(), message.end(), match, pattern);
  };
  const auto number = [&](int group) {
    return std::atoi(match[static_cast<std::size_t>(group)].str().c_str());
  };
  if (matches(aborted)) {
    notice_ = Notice{.rank = number(1), .host = "", .aborted = true, .code = number(2)};
  } else if (matches(died)) {
    notice_ = Notice{.rank = number(1), .host = match[2], .signaled = true, .code = number(3)};
  } else if (matches(mpich)) {
    notice_ =
        Notice{.host = match[2], .signaled = true, .code = number(3), .supervisor = number(1)};
  }
}

void StreamFilter::listen(std::string_view line) {
  if (last_words_ || (!begins_with(line, "Abort(") && !begins_with(line, "convoy: rank "))) return;
  static const std::regex mpich(R"(^Abort\((-?\d+)\) on node (\d+) )");
  static const std::regex convoy(R"(^convoy: rank (\d+) )");
  std::cmatch match;
  Notice notice{.aborted = true, .code = 1};
  if (std::regex_search(line.begin(), line.end(), match, mpich)) {
    notice.code = std::atoi(match[1].str().c_str());
    notice.rank = std::atoi(match[2].str().c_str());
  } else if (std::regex_search(line.begin(), line.end(), match, convoy)) {
    notice.rank = std::atoi(match[1].str().c_str());
  } else {
    return;
  }
  last_words_ = notice;
}

}  // namespace convoy::cli
