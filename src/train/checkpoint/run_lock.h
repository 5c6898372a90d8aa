// One run at a time in a run folder.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/descriptor.h"
#include "convoy/base/log.h"

namespace convoy::train {

// Holds a run folder from construction to destruction. FOLDER/lock names the owner (JSON: host,
// pid, boot, device, started, command, token) and carries two signs of its life:
//  - a lock of the file (fcntl, of the open file), which the kernel drops when the owner ends,
//    however it ends, and which network file systems pass on between hosts;
//  - its modification time, which the owner renews every `beat_s`, for file systems that know no
//    locks or keep them to each host.
// Without its lock, the file of an owner on this host, in this mount of the file system, is a dead
// owner's and taken over; any other that was there before is watched for `patience_s`, and taken
// over unless it is renewed. Who then finds another name in it than its own was not the only one.
//
// check() and confirm() may be called from any thread. Other processes of the job don't take part.
class RunLock {
 public:
  struct Times {
    double beat_s = 5;
    double patience_s = 30;
    // Waits for so many seconds between two looks at somebody else's file; none: this thread
    // sleeps.
    std::function<void(double)> wait = nullptr;
  };

  // Makes the folder if there is none. Throws UsageError that names the owner when another run has
  // the folder, or saying why it can't be made or written to; Failure when the disk doesn't allow
  // it. `log` (or null) hears of a wait.
  RunLock(std::string folder, const Log* log, Times times);
  // Removes the file, and folders that were made for it if they are empty.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Whether another run has taken the folder over, as far as this one has noticed: somebody removed
  // the file, or this process stood still for longer than the other's patience.
  bool lost() const;
  // Throws Failure if lost().
  void check() const;
  // Looks at the file now, and throws Failure if another run has taken the folder: for before
  // something is removed.
  void confirm();
  // Makes one beat, as come by themselves every `beat_s`: looks at the file, and renews it unless
  // it is another run's. Says whether it was renewed.
  bool renew();

 private:
  bool watch(const std::string& path) const;
  void pause_between_looks() const;
  void take_over(const std::string& before, bool locked, const Log* log);
  void settle() const;
  void write_owner();
  std::optional<std::string> owner_now() const;
  bool look();
  void beat();

  std::string folder_;
  std::string path_;
  Times times_;
  std::vector<std::string> made_;  // folders, the innermost first
  Descriptor file_;
  std::string owner_;  // what the file says while it is ours
  std::thread beating_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable ending_;
  bool ended_ = false;
  std::string lost_to_;  // the new owner
};

// Who is at work in a run folder now, as far as can be seen without touching anything: a text for
// people, or "" if nobody is.
std::string run_at_work(const std::string& folder);

}  // namespace convoy::train
