#include "train/checkpoint/run_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "train/logging/environment.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kLimit = std::size_t{1} << 16;
// At an owner's file within the patience that there is with it.
constexpr int kLooks = 30;

std::string text_of(const char* path) {
  try {
    return read_text_file(path, kLimit);
  } catch (const std::exception&) {
    return "";  // an unusual system; the record is for people then
  }
}

std::string boot_id() {
  std::string id = text_of("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

std::string short_command_line() {
  constexpr std::size_t kMost = 500;
  const std::string line = command_line();
  return line.size() > kMost ? line.substr(0, kMost) + "..." : line;
}

std::string member(const std::string& record, const char* key) {
  const Json json = Json::parse(record, nullptr, false);
  if (!json.is_object()) return "";
  const auto found = json.find(key);
  if (found == json.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

// "convoy train r.toml (process 12 on host a, since ...)"
std::string describe(const std::string& record) {
  const std::string pid = member(record, "pid");
  if (pid.empty()) return "another run, which doesn't say who it is";
  return "'" + member(record, "command") + "' (process " + pid + " on host " +
         member(record, "host") + ", since " + member(record, "started") + ")";
}

bool is_same_kernel(const std::string& record) {
  const std::string boot = member(record, "boot");
  return !boot.empty() && boot == boot_id();
}

// The file system that the file is in, as this kernel numbers them. One that is mounted twice (by
// two containers, over FUSE or a network) has two numbers, and each may have locks of its own.
std::string device_of(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return "";
  return std::to_string(status.st_dev);
}

// Whether a lock of this file would have met that owner's.
bool shares_locks(const std::string& record, int file) {
  return is_same_kernel(record) && member(record, "device") == device_of(file);
}

UsageError in_use(const std::string& folder, const std::string& path, const std::string& record) {
  std::string text = folder + " is in use by " + describe(record) +
                     ": wait for its end, stop it, or name another folder with --set "
                     "output.folder=...";
  if (!is_same_kernel(record)) text += "; if its host is gone for good, remove " + path;
  return UsageError(text);
}

// Nothing if it can't be read, see errno.
std::optional<std::string> read_record(int file) {
  std::string text(kLimit, '\0');
  ssize_t got = -1;
  do {
    got = ::pread(file, text.data(), text.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(got));
  return text;
}

// An owner that was just found may not have written its name yet.
std::string read_owner(int file) {
  std::string record = read_record(file).value_or("");
  for (int i = 0; i < 20 && record.empty(); ++i) {
    ::usleep(50'000);
    record = read_record(file).value_or("");
  }
  return record;
}

enum class Locked { yes, by_another, not_supported };

Locked lock(int file, const std::string& path) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  while (::fcntl(file, F_OFD_SETLK, &whole) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return Locked::by_another;
    if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP || errno == EINVAL) {
      return Locked::not_supported;
    }
    throw Failure("cannot lock " + path + ": " + std::strerror(errno));
  }
  return Locked::yes;
}

bool is_at(int file, const std::string& path) {
  struct stat mine {
  }, there{};
  return ::fstat(file, &mine) == 0 && ::stat(path.c_str(), &there) == 0 &&
         mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

// Where the disk is at fault, the caller isn't.
[[noreturn]] void refuse(const std::string& what, int error) {
  const std::string text = what + ": " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EIO) throw Failure(text);
  throw UsageError(text + "; output.folder of the recipe names it");
}

struct Opened {
  Descriptor file;
  bool made = false;  // by this process, and no other
  Locked locked = Locked::yes;
};

// An invalid descriptor if there is such a file already.
Descriptor make_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.open() && errno != EEXIST) refuse("cannot write " + path, errno);
  return file;
}

// Whoever gives the folder back removes the file: what was opened may not be there any more when it
// is locked.
Opened open_locked(const std::string& path) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    Opened opened;
    opened.file = make_file(path);
    opened.made = opened.file.open();
    if (!opened.made) {
      opened.file = Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
      if (!opened.file.open() && errno == ENOENT) continue;
      if (!opened.file.open()) refuse("cannot write " + path, errno);
    }
    opened.locked = lock(opened.file.get(), path);
    if (opened.locked == Locked::by_another || is_at(opened.file.get(), path)) return opened;
  }
  throw Failure(path + " appears and vanishes; is another run starting and ending all the time?");
}

// Returns the folders that it had to make, the innermost first.
std::vector<std::string> make_run_folder(const std::string& folder) {
  std::vector<std::string> made;
  std::error_code error;
  for (fs::path path = folder; path.has_relative_path() &&
                               fs::symlink_status(path, error).type() == fs::file_type::not_found;
       path = path.parent_path()) {
    made.push_back(path.string());
  }
  error.clear();
  fs::create_directories(folder, error);
  if (!error && !fs::is_directory(folder, error) && !error) {
    error.assign(ENOTDIR, std::system_category());
  }
  if (error) refuse("cannot make the run folder " + folder, error.value());
  return made;
}

}  // namespace

RunLock::RunLock(std::string folder, const Log* log, Times times)
    : folder_(std::move(folder)), path_(folder_ + "/lock"), times_(std::move(times)) {
  made_ = make_run_folder(folder_);
  Opened opened = open_locked(path_);
  file_ = std::move(opened.file);
  if (opened.locked == Locked::by_another) throw in_use(folder_, path_, read_owner(file_.get()));
  const std::optional<std::string> before = read_record(file_.get());
  if (!before) refuse("cannot read " + path_, errno);
  const bool sure =
      opened.locked == Locked::yes && (opened.made || shares_locks(*before, file_.get()));
  if (!opened.made && !sure) take_over(*before, opened.locked == Locked::yes, log);
  write_owner();
  if (!sure) settle();
  beating_ = std::thread([this] { beat(); });
}

// Whether somebody renews the file. It is opened again each time: only then do network file systems
// ask their server.
bool RunLock::watch(const std::string& path) const {
  const auto time_of = [&path]() -> std::optional<std::pair<std::int64_t, std::int64_t>> {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file.open() || ::fstat(file.get(), &status) != 0) return std::nullopt;
    return std::pair<std::int64_t, std::int64_t>{status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  };
  const auto first = time_of();
  // Looks are counted, not seconds: whoever stood still meanwhile has not watched.
  for (int i = 0; i < kLooks; ++i) {
    pause_between_looks();
    if (time_of() != first) return true;
  }
  return false;
}

void RunLock::pause_between_looks() const {
  const double pause_s = times_.patience_s / kLooks;
  if (times_.wait) return times_.wait(pause_s);
  std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
}

// From an owner that shows no sign of life.
void RunLock::take_over(const std::string& before, bool locked, const Log* log) {
  if (log != nullptr) {
    log->info(folder_ + " was left by " + describe(before) + "; waiting whether it is alive");
  }
  if (watch(path_)) throw in_use(folder_, path_, read_owner(file_.get()));
  if (locked) return;
  // Without locks: only one process can move that file away, and it alone goes on.
  const std::string aside = path_ + "-" + host_name() + "-" + std::to_string(::getpid());
  const bool moved = ::rename(path_.c_str(), aside.c_str()) == 0;
  const bool dead = moved && is_at(file_.get(), aside);
  if (dead) {
    ::unlink(aside.c_str());
    file_ = make_file(path_);
    if (file_.open()) return;
  } else if (moved) {
    ::rename(aside.c_str(), path_.c_str());  // that of another process that was faster
  }
  const Descriptor theirs(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  throw in_use(folder_, path_, theirs.open() ? read_owner(theirs.get()) : "");
}

// Several that took over at once, or that no lock keeps apart: the last that wrote has it.
void RunLock::settle() const {
  pause_between_looks();
  const std::optional<std::string> now = owner_now();
  if (now && *now != owner_) throw in_use(folder_, path_, *now);
}

void RunLock::write_owner() {
  Json record;
  record["host"] = host_name();
  record["pid"] = ::getpid();
  record["boot"] = boot_id();
  record["device"] = device_of(file_.get());
  record["started"] = utc_now();
  record["command"] = short_command_line();
  record["token"] = std::to_string(Clock::now().time_since_epoch().count()) + "-" +
                    std::to_string(reinterpret_cast<std::uintptr_t>(this));
  owner_ = record.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const auto size = static_cast<ssize_t>(owner_.size());
  if (::ftruncate(file_.get(), 0) != 0 ||
      ::pwrite(file_.get(), owner_.data(), owner_.size(), 0) != size || ::fsync(file_.get()) != 0) {
    refuse("cannot write " + path_, errno);
  }
}

// What the file says, or nothing if it can't be read. One that is gone is still ours: nobody else
// is there.
std::optional<std::string> RunLock::owner_now() const {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return errno == ENOENT ? std::optional(owner_) : std::nullopt;
  return read_record(file.get());
}

// Whether this run still has the folder, as far as can be seen: an error in reading names nobody.
bool RunLock::look() {
  const std::optional<std::string> now = owner_now();  // may be slow, and check() must not be
  if (!now || *now == owner_) return true;
  const std::lock_guard lock(mutex_);
  lost_to_ = describe(*now);
  return false;
}

void RunLock::beat() {
  const auto pause = std::chrono::duration<double>(times_.beat_s);
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, pause, [this] { return ended_; })) {
    lock.unlock();
    if (!renew()) return;
    lock.lock();
  }
}

bool RunLock::renew() {
  if (!look()) return false;
  ::futimens(file_.get(), nullptr);
  return true;
}

bool RunLock::lost() const {
  const std::lock_guard lock(mutex_);
  return !lost_to_.empty();
}

void RunLock::check() const {
  const std::lock_guard lock(mutex_);
  if (lost_to_.empty()) return;
  throw Failure(folder_ + " was taken over by " + lost_to_ +
                ", which found no sign of life of this run: this one ends");
}

void RunLock::confirm() {
  look();
  check();
}

RunLock::~RunLock() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ending_.notify_all();
  beating_.join();
  if (owner_now() != owner_) return;
  ::unlink(path_.c_str());
  for (const std::string& folder : made_) ::rmdir(folder.c_str());
}

std::string run_at_work(const std::string& folder) {
  const Descriptor file(::open((folder + "/lock").c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) return "";
  const std::string record = read_record(file.get()).value_or("");
  struct flock query {};
  query.l_type = F_RDLCK;
  query.l_whence = SEEK_SET;
  const bool known = ::fcntl(file.get(), F_OFD_GETLK, &query) == 0;
  if (known && query.l_type != F_UNLCK) return describe(record);
  if (known && shares_locks(record, file.get())) return "";
  constexpr std::time_t kBeats = 15;  // three of its owner's, which may be on another host
  return std::time(nullptr) - status.st_mtim.tv_sec <= kBeats ? describe(record) : "";
}

}  // namespace convoy::train
