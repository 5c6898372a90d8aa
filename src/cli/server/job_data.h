// What a job on a parameter server leaves in its run folder, RUN/server:
//   job.json       which job it is, and how it was started
//   recipe.toml    the complete recipe, which the coordinator reads
//   coordinator/   the coordinator's data
//   server-1/, ... the servers' data: logs and snapshots of their shards
//   lock           held by who watches over the job
//   before/        what an earlier job has left, until this one has begun (set_aside.h)
//   before.dropped/  of that, what couldn't be removed
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/descriptor.h"

namespace convoy::cli {

// The contents of job.json.
struct JobRecord {
  std::string address;     // of the coordinator
  std::string recipe;      // complete, as recipe.toml has it
  std::string checkpoint;  // that the job began with; empty: with new parameters
  int servers = 0;
  bool coordinator_data = true;        // false: the coordinator's state is elsewhere (etcd)
  std::string etcd_prefix = "";        // of the coordinator's keys there; empty: its own choice
  std::vector<std::string> etcd = {};  // where that is
  bool operator==(const JobRecord&) const = default;
};

class JobData {
 public:
  explicit JobData(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  std::string recipe_file() const { return folder_ + "/recipe.toml"; }
  std::string coordinator_folder() const { return folder_ + "/coordinator"; }
  // Servers are numbered from 1.
  std::string server_folder(int server) const {
    return folder_ + "/server-" + std::to_string(server);
  }

  // Makes the folder, for its owner alone, and holds its lock until this object ends. Throws
  // UsageError when another process has it.
  void lock();
  // Whether there is anything of a job: more than empty folders.
  bool exists() const;
  // Reads the record of the job that left its data here; gives nothing if there is none, or if it
  // has begun no further than that something of the record, the coordinator's data or a server's is
  // missing.
  std::optional<JobRecord> whole() const;
  // As far as it can be read.
  std::optional<JobRecord> record() const;
  // Writes recipe.toml, then job.json.
  void write(const JobRecord& record);
  // Removes everything of the job; the lock stays while it is held, and what was set aside.
  void remove();
  // Files and folders of the job, in the order in which they are to be moved.
  std::vector<std::string> parts() const;

 private:
  std::string folder_;
  Descriptor lock_;
};

// How a job begins, and what becomes of the servers' data of an earlier one.
struct Beginning {
  bool go_on = false;      // with the servers' data as it is
  std::string checkpoint;  // from this one; empty: with new parameters, or go_on
  std::string line;        // for people; empty: nothing to say
  bool again = false;      // with new parameters, and the run that was lost is to be put aside
};

// What is wanted, and what is there.
struct BeginningFacts {
  std::string resume;                // empty: no; "latest", "auto", or a checkpoint
  bool overwrite = false;            // the caller has removed what the run folder had
  std::string newest_checkpoint;     // of the run; empty: none
  std::optional<JobRecord> record;   // of servers' data that is whole
  bool data = false;                 // servers' data is there
  std::vector<std::string> changes;  // keys of the recipe that the job depends on and that differ
  // With "auto", where neither servers' data nor a checkpoint goes on: whether the run folder has a
  // run that was lost before its first checkpoint. Throws where a job may not begin there.
  std::function<bool()> lost_run = {};
};

// Servers' data is newer than any checkpoint, so it is what goes on, unless a checkpoint is named,
// the recipe's job is another one, or the data isn't whole. "auto" begins where there is nothing to
// go on with, but not where servers' data is in the way of which a part is missing, or that is of
// another recipe. Throws UsageError where nothing is right.
Beginning choose_beginning(const BeginningFacts& facts);

// Whether a job may go on with another value of this key of the recipe. Its coordinator keeps the
// recipe that the job began with, so that this is only true for what concerns nobody but the one
// who starts its processes.
bool may_change(const std::string& key);

}  // namespace convoy::cli
