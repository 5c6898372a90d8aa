#include "cli/server/downpour_job.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "cli/job/job_file.h"
#include "cli/launch/report.h"
#include "cli/server/etcd_keys.h"
#include "cli/server/set_aside.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

constexpr const char* kSpeaker = "convoy train";

void say(const std::string& line) { std::fprintf(stderr, "%s: %s\n", kSpeaker, line.c_str()); }

// What run_job takes for a name.
std::string job_name(std::string name) {
  constexpr std::size_t kLongest = 64;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  }
  name = name.substr(0, kLongest);
  return name.empty() || name.front() == '-' ? "downpour" : name;
}

Beginning beginning_of(const DownpourOrder& order, const JobData& data) {
  BeginningFacts facts{.resume = order.resume,
                       .overwrite = order.overwrite,
                       .newest_checkpoint = order.newest_checkpoint,
                       .record = data.whole(),
                       .data = data.exists(),
                       .changes = {},
                       .lost_run = order.lost_run};
  if (facts.record) {
    facts.changes = order.changes(facts.record->recipe, order.recipe);
    std::erase_if(facts.changes, may_change);
  }
  return choose_beginning(facts);
}

std::string counted(int count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string summary(const DownpourSetup& setup) {
  return "a coordinator, " + counted(setup.servers, "server") + ", " +
         counted(setup.replicas, "replica") +
         (setup.partitions > 1 ? " of " + std::to_string(setup.partitions) + " processes" : "") +
         " and an evaluator; to watch: convoy status " + setup.coordinator +
         (setup.certificates.empty() ? "" : " --certs " + setup.certificates);
}

std::string coordinator_address(const DownpourSetup& setup) {
  if (setup.hosts.empty()) return free_address();
  return setup.hosts.front() + ":" + std::to_string(likely_port());
}

JobOptions options_of(const DownpourOrder& order) {
  JobOptions options;
  options.name = job_name(order.name);
  options.speaker = kSpeaker;
  options.announces = true;
  options.stopped_by_usr1 = true;
  options.grace_s = order.grace_s;
  if (!order.setup.hosts.empty()) options.folder = order.data;
  return options;
}

// The lines that start the job by hand. Nothing of it is there yet: what `convoy train` itself does
// before it starts processes are lines, too, or options of theirs.
std::string lines_by_hand(DownpourOrder order, const JobData& data) {
  const Beginning beginning = beginning_of(order, data);
  const auto record = data.record();
  order.setup.checkpoint = beginning.go_on && record ? record->checkpoint : beginning.checkpoint;
  if (beginning.go_on && record) {
    order.setup.etcd_prefix = record->etcd_prefix;
  } else if (!order.setup.etcd.empty()) {
    // The coordinator's own choice may have an earlier job.
    order.setup.etcd_prefix = "convoy/" + order.name + "-" + random_name() + "/";
  }
  order.setup.recipe = order.recipe_words;
  order.setup.by_hand = true;
  const JobFile job{options_of(order), downpour_roles(order.setup, data)};
  std::string text;
  if (data.exists() && !beginning.go_on) {
    text += "# first, since an earlier job has left its servers' data there:\nmv -T " +
            shell_quoted(data.folder()) + " " +
            shell_quoted(data.folder() + ".before-" + random_name()) + "\n";
  }
  text += describe(job, {std::filesystem::current_path().string()});
  return text +
         "# When the evaluator has ended, all is trained and saved; replicas end then, and the "
         "coordinator some\n# seconds later. Ctrl-C ends the servers, whose data nobody needs any "
         "more: " +
         data.folder() + "\n";
}

// Removes what a job that nobody goes on with has in etcd.
void forget(const JobRecord& record, const DownpourSetup& setup) {
  if (record.etcd_prefix.empty()) return;
  const EtcdKeys keys{record.etcd.empty() ? setup.etcd : record.etcd, record.etcd_prefix,
                      setup.certificates, setup.hosts.empty() ? "localhost" : setup.hosts.front()};
  const std::string problem = remove_keys(keys);
  if (problem.empty()) return;
  say("keys that begin with " + record.etcd_prefix +
      " can't be removed from etcd, and stay there: " + problem);
}

// What an earlier job has left, in the servers' folder and in the run's.
class Earlier {
 public:
  Earlier(const DownpourOrder& order, JobData& data)
      : order_(order), data_(data), servers_(data.folder()), run_(order.run_folder) {}

  void set_aside() {
    const auto newest = data_.record();
    const bool never_began = kept().has_value();  // the newest; its data is removed
    servers_.take(data_.parts());
    if (newest && never_began) forget(*newest, order_.setup);
    if (order_.run_files) run_.take(order_.run_files());
  }
  void put_back() {
    if (servers_.any()) {
      const auto newest = data_.record();
      data_.remove();
      servers_.restore();
      if (newest) forget(*newest, order_.setup);
    }
    if (order_.run_files && run_.any()) {
      for (const std::string& path : order_.run_files()) std::filesystem::remove_all(path);
      run_.restore();
    }
  }
  // The job has begun: what can't be removed changes nothing about it.
  void drop() {
    const auto before = kept();
    drop(servers_);
    // Also of a job that this one goes on with.
    if (has_run()) drop(run_);
    if (before) forget(*before, order_.setup);
  }
  std::string where() const {
    if (has_run() && run_.any()) return run_.where();
    return servers_.any() ? servers_.where() : "";
  }

 private:
  bool has_run() const { return !order_.run_folder.empty(); }
  static void drop(SetAside& aside) {
    try {
      aside.drop();
    } catch (const Failure& error) {
      say(std::string("what was there before this job can't be removed: ") + error.what());
    }
  }
  std::optional<JobRecord> kept() const { return JobData(servers_.where()).record(); }

  const DownpourOrder& order_;
  JobData& data_;
  SetAside servers_, run_;
};

// What is set aside while a job goes on is older than that job, and no mistake makes it the newest.
int finish(const JobOutcome& outcome, const DownpourOrder& order, JobData& data, Earlier& earlier,
           bool go_on) {
  const int status = outcome.exit_status;
  // The evaluator has said it, and how to go on.
  if (outcome.exit_status != kExitRequeue) {
    for (const std::string& line : outcome.lines) say(line);
  }
  const bool had = !earlier.where().empty();
  if (status == 0 || status == kExitRequeue ||
      (had && order.has_checkpoint && order.has_checkpoint())) {
    earlier.drop();
  } else if (had && status == kExitUsage && !go_on) {
    earlier.put_back();
    say("what was there before this job is as it was");
    return status;
  } else if (had) {
    say("what was there before this job is kept in " + earlier.where() +
        " until it has a checkpoint");
  }
  if (status == 0) {
    const auto record = data.record();
    try {
      data.remove();
    } catch (const std::exception& error) {
      say("the servers' data, which nobody needs any more, can't be removed: " +
          std::string(error.what()));
    }
    if (record) forget(*record, order.setup);
  } else if (outcome.exit_status != kExitRequeue && data.whole()) {
    say("the servers' data is kept in " + order.data + "; --resume goes on with it");
  }
  return outcome.exit_status;
}

}  // namespace

int run_downpour_job(DownpourOrder order) {
  JobData data(order.data);
  order.setup.coordinator = coordinator_address(order.setup);
  if (order.dry_run) {
    std::fputs(lines_by_hand(std::move(order), data).c_str(), stdout);
    return 0;
  }
  downpour_roles(order.setup, data);  // what is wrong is said before anything changes
  data.lock();
  const Beginning beginning = beginning_of(order, data);
  if (!order.overwrite && !beginning.again) order.run_files = nullptr;
  JobRecord record{.address = order.setup.coordinator,
                   .recipe = order.recipe,
                   .checkpoint = beginning.checkpoint,
                   .servers = order.setup.servers,
                   .coordinator_data = order.setup.etcd.empty(),
                   .etcd = order.setup.etcd};
  Earlier earlier(order, data);
  if (!order.setup.etcd.empty())
    record.etcd_prefix = "convoy/" + order.name + "-" + random_name() + "/";
  if (beginning.go_on) {
    const JobRecord before = *data.record();
    record.recipe = before.recipe;            // which the coordinator has
    record.checkpoint = before.checkpoint;    // needed if it had not even begun
    record.etcd_prefix = before.etcd_prefix;  // where that is
  } else {
    earlier.set_aside();
  }
  JobOutcome outcome;
  try {
    data.write(record);
    order.setup.checkpoint = record.checkpoint;
    order.setup.etcd_prefix = record.etcd_prefix;
    const std::vector<Role> roles = downpour_roles(order.setup, data);
    if (!beginning.line.empty()) say(beginning.line);
    say(summary(order.setup));
    outcome = run_job(roles, options_of(order));
  } catch (const std::exception&) {
    if (!beginning.go_on) earlier.put_back();
    throw;
  }
  return finish(outcome, order, data, earlier, beginning.go_on);
}

}  // namespace convoy::cli
