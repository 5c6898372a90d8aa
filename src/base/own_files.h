// The one rule of what commands write to: a user's files are never removed or replaced. A file is
// written to if it is new, empty, or begins with the mark of its kind; a folder if it is new,
// empty, or has what tells its kind. All else is refused, by name, before the work begins.
// docs/files.md lists what each command writes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace convoy {

// Files of a kind that Convoy writes.
struct OwnFile {
  const char* what;              // "a table that --json has written"
  bool (*is)(std::string_view);  // by its first bytes, kMarkBytes at most
};
struct OwnFolder {
  const char* what;                     // "the folder of a plan"
  bool (*is)(const std::string& path);  // of one that has something in it
};

inline constexpr std::size_t kMarkBytes = 4096;

// What files of these kinds begin with.
inline constexpr std::string_view kTableMark = R"({"convoy":"table",)";
inline constexpr std::string_view kMachineMark = "# By convoy plan, for --machine.\n";
inline constexpr std::string_view kPlanMark = "# By convoy plan batch; for convoy train --plan.\n";
inline constexpr std::string_view kRunRecipeMark = "# The recipe of a run, by convoy train.\n";
inline constexpr std::string_view kPackReportMark = "what\tname\tdetail\n";
inline constexpr std::string_view kTimelineMark =
    R"({"otherData": {"program": "convoy"}, "displayTimeUnit": "ms", "traceEvents": [)";

extern const OwnFile kTableFile;     // of --json
extern const OwnFile kMachineFile;   // of --write-machine
extern const OwnFile kTimelineFile;  // of --timeline
extern const OwnFile kRunPage, kPlanPage, kComparisonPage;
extern const OwnFile kPointsFile, kChecksFile;  // of a plan's folder
extern const OwnFile kMetricsFile;              // metrics.jsonl of a run, and --metrics
extern const OwnFile kRulesFile;                // of --tune: users write such themselves
extern const OwnFile kIndexFile;                // OUT.index
extern const OwnFile kPackReport;               // OUT.report.tsv
extern const OwnFolder kPlanFolder;
extern const OwnFolder kLogsFolder;        // of `convoy run --logs`
extern const OwnFolder kServerFolder;      // of one server, or a coordinator
extern const OwnFolder kServersFolder;     // of all those of a job
extern const OwnFolder kComparisonFolder;  // of `convoy bench downpour`
extern const OwnFolder kCertificates;      // of `convoy certs`

// The element of a page's head by which it is known.
std::string page_mark(const OwnFile& kind);

// Why a file or a folder isn't to be written to, and the way out; nothing where it may be. What is
// no file on a disk (a pipe, a terminal) may be.
std::optional<std::string> why_not_file(const std::string& path, const OwnFile& kind);
std::optional<std::string> why_not_folder(const std::string& path, const OwnFolder& kind);

// Throw UsageError, which begins with the option.
void check_own_file(const std::string& option, const std::string& path, const OwnFile& kind);
void check_own_folder(const std::string& option, const std::string& path, const OwnFolder& kind);

// Its first kMarkBytes; nothing of what can't be read.
std::string begin_of_file(const std::string& path);
// Whether nothing is in it. What a disk's root has from the beginning ("lost+found") is nothing.
bool is_empty_folder(const std::string& path);
// "rank-12.log" with "rank-" and ".log"
bool is_numbered_name(std::string_view name, std::string_view before, std::string_view after);

}  // namespace convoy
