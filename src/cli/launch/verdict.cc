#include "cli/launch/verdict.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

constexpr int kSignalBase = 128;  // of a shell's exit status

std::string who(const JobEnd& end, int rank, const std::string& host) {
  std::string text = "rank " + std::to_string(rank) + (host.empty() ? "" : " on host " + host);
  if (end.partitions > 1) {
    text += " (replica " + std::to_string(rank / end.partitions) + ", partition " +
            std::to_string(rank % end.partitions) + ")";
  }
  return text;
}

const Report* report_of(const JobEnd& end, int rank, Report::Kind kind) {
  const auto found = std::find_if(
      end.reports.begin(), end.reports.end(),
      [&](const Report& report) { return report.rank == rank && report.kind == kind; });
  return found == end.reports.end() ? nullptr : &*found;
}

bool requeues(const Report& report) { return !report.signaled && report.code == kExitRequeue; }

// Whether every rank has come to its end with status 0.
bool all_have_finished(const JobEnd& end) {
  for (int rank = 0; rank < end.ranks; ++rank) {
    const Report* const report = report_of(end, rank, Report::Kind::ended);
    if (report == nullptr || report->failed()) return false;
  }
  return true;
}

bool before(const Report& a, const Report& b) { return a.host == b.host && a.time_ns < b.time_ns; }

// "; the other 3 ranks were ended"
std::string others(const JobEnd& end, int rank) {
  const int rest = end.ranks - 1;
  const int finished = static_cast<int>(
      std::count_if(end.reports.begin(), end.reports.end(), [&](const Report& report) {
        return report.kind == Report::Kind::ended && !report.failed() && report.rank != rank;
      }));
  const int ended = rest - finished;
  const auto ranks = [](int count) {
    return std::to_string(count) + (count == 1 ? " rank" : " ranks");
  };
  if (rest <= 0) return "";
  if (finished == 0) {
    return rest == 1 ? "; the other rank was ended" : "; the other " + ranks(rest) + " were ended";
  }
  if (ended <= 0) {
    return rest == 1 ? "; the other rank had finished"
                     : "; the other " + ranks(rest) + " had finished";
  }
  return "; " + ranks(ended) + (ended == 1 ? " was" : " were") + " ended, " +
         std::to_string(finished) + " had finished";
}

std::string all_ended(const JobEnd& end) {
  return end.ranks == 1 ? "; its rank was ended"
                        : "; the " + std::to_string(end.ranks) + " ranks were ended";
}

int status_of(bool signaled, int code) {
  return !signaled && code == kExitUsage ? kExitUsage : kExitFailure;
}

// What a rank's fate sounds like when its own supervisor told it.
Verdict from_report(const JobEnd& end, const Report& report) {
  if (report.kind == Report::Kind::cannot_start) {
    return {report.code, who(end, report.rank, report.host) + ": " + report.text, true};
  }
  return {status_of(report.signaled, report.code),
          who(end, report.rank, report.host) + " " + how(report.signaled, report.code) +
              others(end, report.rank),
          true};
}

Verdict from_notice(const JobEnd& end, Notice notice) {
  for (const Report& report : end.reports) {
    if (notice.rank < 0 && report.supervisor == notice.supervisor && report.host == notice.host) {
      notice.rank = report.rank;
    }
  }
  if (notice.rank < 0) return {};
  const Report* start = report_of(end, notice.rank, Report::Kind::supervised);
  const std::string host = !notice.host.empty() ? notice.host : start != nullptr ? start->host : "";
  if (!notice.aborted) {
    // Its program's end would have been reported: what mpirun saw dying is the supervisor.
    const std::string fate = notice.signaled ? ", which " + how(true, notice.code) : "";
    return {kExitFailure,
            who(end, notice.rank, host) + " lost its supervisor" + fate + others(end, notice.rank),
            true};
  }
  const Report* finish = report_of(end, notice.rank, Report::Kind::ended);
  const bool by_status = finish != nullptr && !finish->signaled && finish->code == notice.code;
  return {status_of(false, notice.code),
          who(end, notice.rank, host) +
              (by_status ? " exited with status " + std::to_string(notice.code)
                         : " called MPI_Abort with code " + std::to_string(notice.code)) +
              others(end, notice.rank),
          true};
}

}  // namespace

std::string how(bool signaled, int code) {
  return signaled ? "was killed by " + describe_signal(code)
                  : "exited with status " + std::to_string(code);
}

const Report* first_fault(const JobEnd& end) {
  const Report* first = nullptr;
  const auto consider = [&](const Report& report) {
    if (first == nullptr || before(report, *first)) first = &report;
  };
  for (const Report& report : end.reports) {
    if (report.failed() && report.asked == Asked::nobody && !requeues(report)) consider(report);
  }
  // Somebody ended a single rank, and it was not us.
  if (first == nullptr && end.interrupted_by == 0 && !end.notice) {
    for (const Report& report : end.reports) {
      if (report.failed() && report.asked == Asked::another_process && !requeues(report))
        consider(report);
    }
  }
  return first;
}

namespace {

Verdict of_ranks(const JobEnd& end) {
  if (end.interrupted_by == 0) {
    if (const Report* fault = first_fault(end)) return from_report(end, *fault);
    // MPICH's mpirun names any of the supervisors that have died, Open MPI's the first.
    const bool exact = end.notice && end.notice->supervisor == 0;
    const bool silent = end.lost && !report_of(end, end.lost->rank, Report::Kind::ended);
    const std::optional<Notice> lost = silent ? end.lost : std::nullopt;
    for (const auto& notice :
         {exact ? end.notice : lost, exact ? lost : end.notice, end.last_words}) {
      if (!notice) continue;
      const Verdict verdict = from_notice(end, *notice);
      if (verdict.exit_status != 0) return verdict;
    }
  }

  const bool some_requeue = std::any_of(end.reports.begin(), end.reports.end(), requeues);
  const bool all_agree =
      std::all_of(end.reports.begin(), end.reports.end(),
                  [](const Report& report) { return !report.failed() || requeues(report); });
  if (some_requeue && all_agree)
    return {kExitRequeue, "the ranks ask to be started again (status 75)", true};

  if (end.interrupted_by != 0) {
    // The signal came when their work was as good as done, or a rank told to end ends so.
    if (all_have_finished(end)) return {};
    return {kSignalBase + end.interrupted_by,
            "ended by " + describe_signal(end.interrupted_by) + all_ended(end), true};
  }
  const bool supervised =
      std::any_of(end.reports.begin(), end.reports.end(),
                  [](const Report& report) { return report.kind == Report::Kind::supervised; });
  if (end.mpirun_signaled) {
    return {kExitFailure,
            "mpirun was killed by " + describe_signal(end.mpirun_code) + all_ended(end), true};
  }
  const auto unreported = [&] {
    return std::any_of(end.reports.begin(), end.reports.end(), [&](const Report& report) {
      return report.kind == Report::Kind::supervised &&
             report_of(end, report.rank, Report::Kind::ended) == nullptr;
    });
  };
  if (end.mpirun_code == 0) {
    const Report* failed = nullptr;
    for (const Report& report : end.reports) {
      if (report.failed()) failed = &report;
    }
    if (failed != nullptr) return from_report(end, *failed);
    if (!unreported()) return {};
    return {kExitFailure, "a supervisor ended without saying how its rank did" + all_ended(end),
            false};
  }
  const std::string status = "mpirun ended with status " + std::to_string(end.mpirun_code);
  if (!supervised) return {kExitFailure, status + " before any rank had started", false};
  return {status_of(false, end.mpirun_code), status + all_ended(end), false};
}

}  // namespace

Verdict judge(const JobEnd& end) {
  Verdict verdict = of_ranks(end);
  for (const std::string& process : end.left) {
    verdict.line += (verdict.line.empty() ? "" : "; ") + process + " is left: it can't be killed";
    // Whoever starts the job again would do so beside it.
    if (verdict.exit_status == 0 || verdict.exit_status == kExitRequeue)
      verdict.exit_status = kExitFailure;
  }
  return verdict;
}

}  // namespace convoy::cli
