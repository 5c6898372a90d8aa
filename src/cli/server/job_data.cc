#include "cli/server/job_data.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/own_files.h"
#include "cli/server/set_aside.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr std::size_t kLongest = 1 << 24;
constexpr mode_t kOwnersFolder = 0700;

// Whether anything stands in it.
bool has_data(const std::string& folder) {
  std::error_code error;
  const fs::directory_iterator begin(folder, error);
  return !error && begin != fs::directory_iterator();
}

// Not what an earlier job has left.
bool is_of_the_job(const fs::path& path) {
  const std::string name = path.filename().string();
  return name != "lock" && name != SetAside::kName && !name.starts_with(SetAside::kDropped);
}

std::string in_a_row(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

void JobData::lock() {
  check_own_folder("the servers' data", folder_, kServersFolder);
  make_folders(fs::path(folder_).parent_path().string());
  if (mkdir(folder_.c_str(), kOwnersFolder) != 0 && errno != EEXIST)
    throw UsageError("can't make the folder " + folder_ + ": " + std::strerror(errno));
  const std::string path = folder_ + "/lock";
  lock_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_.open()) throw UsageError("can't open " + path + ": " + std::strerror(errno));
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
    throw UsageError("another convoy train is at work with the servers' data in " + folder_);
}

bool JobData::exists() const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const bool empty = entry.is_directory() && !has_data(entry.path().string());
    if (is_of_the_job(entry.path()) && !empty) return true;
  }
  return false;
}

std::optional<JobRecord> JobData::record() const {
  if (!fs::exists(folder_ + "/job.json")) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(read_text_file(folder_ + "/job.json", kLongest));
    if (json.at("version") != kVersion) return std::nullopt;
    return JobRecord{json.at("address"),
                     read_text_file(recipe_file(), kLongest),
                     json.at("checkpoint"),
                     json.at("servers"),
                     json.at("coordinator_data"),
                     json.value("etcd_prefix", ""),
                     json.value("etcd", std::vector<std::string>{})};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const UsageError&) {  // no recipe
    return std::nullopt;
  }
}

std::optional<JobRecord> JobData::whole() const {
  std::optional<JobRecord> found = record();
  if (!found || (found->coordinator_data && !has_data(coordinator_folder()))) return std::nullopt;
  for (int server = 1; server <= found->servers; ++server) {
    if (!has_data(server_folder(server))) return std::nullopt;
  }
  return found;
}

void JobData::write(const JobRecord& record) {
  write_file_atomically(recipe_file(), record.recipe);
  const nlohmann::ordered_json json{{"version", kVersion},
                                    {"address", record.address},
                                    {"checkpoint", record.checkpoint},
                                    {"servers", record.servers},
                                    {"coordinator_data", record.coordinator_data},
                                    {"etcd_prefix", record.etcd_prefix},
                                    {"etcd", record.etcd}};
  write_file_atomically(folder_ + "/job.json", json.dump(2) + "\n");
}

void JobData::remove() {
  std::error_code error;
  // Without this file what is left counts for nothing, should this be interrupted.
  fs::remove(folder_ + "/job.json", error);
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const bool lock = entry.path().filename() == "lock";
    if (lock ? lock_.open() : !is_of_the_job(entry.path())) continue;
    // A folder may be the root of a disk of its own, which stays.
    if (entry.is_directory()) {
      for (const auto& inner : fs::directory_iterator(entry.path())) wipe(inner.path());
      fs::remove(entry.path(), error);
    } else {
      wipe(entry.path());
    }
  }
}

std::vector<std::string> JobData::parts() const {
  std::vector<std::string> parts{folder_ + "/job.json"};  // without which the others don't count
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (is_of_the_job(entry.path()) && entry.path() != parts.front())
      parts.push_back(entry.path().string());
  }
  return parts;
}

namespace {

// Where there is neither servers' data that goes on, for this reason, nor a checkpoint.
Beginning begin_anyhow(const BeginningFacts& facts, const std::string& why) {
  const auto refuse = [&why] {
    throw UsageError("--resume=auto: " + why +
                     ", and there is no checkpoint to go on from; --overwrite begins anew");
  };
  if (facts.record) refuse();
  const bool lost = facts.lost_run && facts.lost_run();
  // A job has trained nothing before its evaluator has begun the run.
  if (facts.data && lost) refuse();
  Beginning beginning;
  beginning.again = lost;
  if (lost) beginning.line = "beginning again: the run in the folder has no checkpoint";
  if (facts.data) beginning.line = "beginning anew: " + why + ", and nothing was trained with it";
  return beginning;
}

}  // namespace

Beginning choose_beginning(const BeginningFacts& facts) {
  if (facts.resume.empty()) {
    if (facts.data && !facts.overwrite)
      throw UsageError(
          "the run folder has servers' data of a job that has not come to its end: --resume goes "
          "on with it, --overwrite removes it");
    return {};
  }
  const bool begins = facts.resume == "auto";
  if (facts.resume != "latest" && !begins) {
    return {false, facts.resume,
            facts.data ? "from " + facts.resume + "; the servers' own data is removed"
                       : "from " + facts.resume};
  }
  const bool same = facts.changes.empty();
  if (facts.record && same) return {true, "", "going on with the servers' own data"};
  const std::string why = !facts.data     ? ""
                          : !facts.record ? "the servers' data is not whole"
                                          : "the recipe has another " + in_a_row(facts.changes);
  if (facts.newest_checkpoint.empty()) {
    if (begins) return begin_anyhow(facts, why);
    if (why.empty())
      throw UsageError(
          "there is no checkpoint in the run folder to go on from; --resume=auto begins where "
          "there is none");
    throw UsageError(why + ", and there is no checkpoint to go on from" +
                     (facts.record ? "" : "; --overwrite begins anew"));
  }
  return {false, facts.newest_checkpoint,
          "from " + facts.newest_checkpoint + (why.empty() ? "" : ", since " + why)};
}

bool may_change(const std::string& key) {
  return key == "downpour.hosts" || key == "downpour.restarts" || key == "sandblaster.hosts" ||
         key == "sandblaster.restarts";
}

}  // namespace convoy::cli
