#include "base/own_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "convoy/base/error.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

// The line that says what the lines after it are. One that is cut off was the last thing that a
// process wrote which was killed.
bool has_header(std::string_view begin, std::string_view kind) {
  const std::string_view line = first_line(begin);
  return line.starts_with(R"({"fingerprint":)") && has(line, kind);
}

constexpr const char* kRun = "Convoy report";
constexpr const char* kPlan = "Convoy plan";
constexpr const char* kComparison = "Convoy comparison";

std::string generator(const char* name) {
  return std::string("<meta name=\"generator\" content=\"") + name + "\">";
}

bool is_page(std::string_view begin, const char* name) {
  return begin.starts_with("<!DOCTYPE html>") && has(begin, generator(name));
}

// All that is in a folder is one of these.
bool all_in(const std::string& folder, const std::function<bool(const std::string&)>& known) {
  std::error_code error;
  fs::directory_iterator i(folder, error), end;
  for (; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename().string();
    if (name != "lost+found" && !known(name)) return false;
  }
  return !error;
}

bool is_plan_folder(const std::string& path) {
  const std::string points = path + "/points.jsonl";
  if (kPointsFile.is(begin_of_file(points))) return true;
  // A process that was killed at its very beginning has left this, or half of that line.
  constexpr std::string_view kBegin = R"({"fingerprint":)";
  const std::string begin = begin_of_file(points);
  const bool half = begin.find('\n') == std::string::npos &&
                    (begin.starts_with(kBegin) || kBegin.starts_with(begin));
  std::error_code error;
  return half && fs::is_regular_file(points, error) &&
         all_in(path, [](const std::string& name) { return name == "points.jsonl"; });
}

// As src/server/log and src/server/host name them.
bool is_server_name(const std::string& name) {
  return name == "lock" || is_numbered_name(name, "shard-", "") ||
         is_numbered_name(name, "log-", "") || name.starts_with("snapshot-") ||
         name == "identity" || name.starts_with("partial-");
}

bool is_server_folder(const std::string& path) { return all_in(path, is_server_name); }

bool is_servers_folder(const std::string& path) {
  std::error_code error;
  // A recipe alone is a user's.
  const bool job = fs::is_regular_file(path + "/lock", error) ||
                   has(begin_of_file(path + "/job.json"), R"("coordinator_data")");
  return all_in(path, [job](const std::string& name) {
    return name == "lock" || name == "job.json" || (name == "recipe.toml" && job) ||
           name == "coordinator" || is_numbered_name(name, "server-", "") || name == "before" ||
           name.starts_with("before.dropped") || name.starts_with("convoy-job-") ||
           name.starts_with(".partial-");
  });
}

bool is_comparison_folder(const std::string& path) {
  std::error_code error;
  const std::string rows = path + "/rows.jsonl";
  if (!fs::is_regular_file(rows, error)) return false;
  const std::string begin = begin_of_file(rows);
  if (!begin.empty()) return has(first_line(begin), R"("run":)");
  // No run has come to its end yet.
  return (fs::is_directory(path + "/recipes", error) && fs::is_directory(path + "/logs", error)) ||
         all_in(path, [](const std::string& name) { return name == "rows.jsonl"; });
}

bool has_certificates(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path + "/ca.pem", error)) return true;
  return all_in(path, [](const std::string& name) {
    return name.ends_with(".pem") || name.ends_with(".key") || has(name, ".partial-");
  });
}

bool is_logs_folder(const std::string& path) {
  return all_in(path,
                [](const std::string& name) { return is_numbered_name(name, "rank-", ".log"); });
}

}  // namespace

const OwnFile kTableFile{"a table that --json has written",
                         [](std::string_view begin) { return begin.starts_with(kTableMark); }};
const OwnFile kMachineFile{"a machine that convoy plan has written",
                           [](std::string_view begin) { return begin.starts_with(kMachineMark); }};
const OwnFile kTimelineFile{"a timeline of Convoy", [](std::string_view begin) {
                              return begin.starts_with(kTimelineMark);
                            }};
const OwnFile kRunPage{"a page of convoy report",
                       [](std::string_view begin) { return is_page(begin, kRun); }};
const OwnFile kPlanPage{"a page of convoy plan",
                        [](std::string_view begin) { return is_page(begin, kPlan); }};
const OwnFile kComparisonPage{"a page of convoy bench downpour",
                              [](std::string_view begin) { return is_page(begin, kComparison); }};
const OwnFile kPointsFile{"points of a plan", [](std::string_view begin) {
                            return has_header(begin, R"("kind":"plan")");
                          }};
const OwnFile kChecksFile{"trainings of convoy plan check", [](std::string_view begin) {
                            return has_header(begin, R"("kind":"checks")");
                          }};
const OwnFolder kPlanFolder{
    "the folder of a plan (with points.jsonl, as convoy plan batch makes it)", is_plan_folder};
const OwnFolder kLogsFolder{"a folder of logs (with files rank-N.log alone)", is_logs_folder};

const OwnFile kMetricsFile{"metrics of Convoy", [](std::string_view begin) {
                             return begin.starts_with(R"({"kind": ")") &&
                                    has(first_line(begin), R"(, "step": )");
                           }};
const OwnFile kRulesFile{"an empty file", [](std::string_view) { return false; }};
const OwnFile kIndexFile{"an index of Convoy", [](std::string_view begin) {
                           return begin.starts_with(
                               "\x89"
                               "CVIX\r\n\x1a");
                         }};
const OwnFile kPackReport{"a report of convoy pack", [](std::string_view begin) {
                            return begin.starts_with(kPackReportMark);
                          }};
const OwnFolder kServerFolder{
    "the data of a server or a coordinator (shard-N, log-N, snapshot-N, lock)", is_server_folder};
const OwnFolder kServersFolder{
    "the data of a job's servers (coordinator, server-N, job.json, recipe.toml, lock)",
    is_servers_folder};
const OwnFolder kComparisonFolder{
    "the folder of a comparison (with rows.jsonl, as convoy bench downpour makes it)",
    is_comparison_folder};
const OwnFolder kCertificates{"a folder of certificates (with ca.pem, or .pem and .key alone)",
                              has_certificates};

std::string page_mark(const OwnFile& kind) {
  return generator(&kind == &kRunPage ? kRun : &kind == &kPlanPage ? kPlan : kComparison);
}

std::string begin_of_file(const std::string& path) {
  std::string begin(kMarkBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return begin;
}

bool is_empty_folder(const std::string& path) {
  return all_in(path, [](const std::string&) { return false; });
}

bool is_numbered_name(std::string_view name, std::string_view before, std::string_view after) {
  if (name.size() <= before.size() + after.size()) return false;
  if (!name.starts_with(before) || !name.ends_with(after)) return false;
  const std::string_view number =
      name.substr(before.size(), name.size() - before.size() - after.size());
  return number.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<std::string> why_not_file(const std::string& path, const OwnFile& kind) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found) {
    if (!fs::is_symlink(path, error)) return std::nullopt;
    return path + " is a link that leads nowhere; remove it, or name another file";
  }
  if (type == fs::file_type::directory) return "can't write " + path + ": it is a folder";
  if (type != fs::file_type::regular) return std::nullopt;
  const auto size = fs::file_size(path, error);
  if (!error && (size == 0 || kind.is(begin_of_file(path)))) return std::nullopt;
  return path + " is there, and is not " + kind.what +
         ", so it is left as it is; move it away, or name another file";
}

std::optional<std::string> why_not_folder(const std::string& path, const OwnFolder& kind) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found) {
    if (!fs::is_symlink(path, error)) return std::nullopt;
    return path + " is a link that leads nowhere; remove it, or name another folder";
  }
  if (type != fs::file_type::directory) return path + " is not a folder; name another";
  if (is_empty_folder(path) || kind.is(path)) return std::nullopt;
  return path + " has something in it, and is not " + kind.what +
         ", so it is left as it is; name a new or an empty folder";
}

void check_own_file(const std::string& option, const std::string& path, const OwnFile& kind) {
  if (const auto why = why_not_file(path, kind)) throw UsageError(option + ": " + *why);
}

void check_own_folder(const std::string& option, const std::string& path, const OwnFolder& kind) {
  if (const auto why = why_not_folder(path, kind)) throw UsageError(option + ": " + *why);
}

}  // namespace convoy
