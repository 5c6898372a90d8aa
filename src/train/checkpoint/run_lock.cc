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

namespace convoy::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kLimit = std::size_t{1} << 16;

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

std::string command_line() {
  constexpr std::size_t kMost = 500;
  std::string line = text_of("/proc/self/cmdline");
  while (!line.empty() && line.back() == '\0') line.pop_back();
  for (char& c : line) {
    if (c == '\0') c = ' ';
  }
  return line.size() > kMost ? line.substr(0, kMost) + "..." : line;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
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

UsageError in_use(const std::string& folder, const std::string& path, const std::string& record) {
  std::string text = folder + " is in use by " + describe(record) +
                     ": wait for its end, stop it, or name another folder with --set "
                     "output.folder=...";
  if (!is_same_kernel(record)) text += "; if its host is gone for good, remove " + path;
  return UsageError(text);
}

std::string read_record(int file) {
  std::string text(kLimit, '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// An owner that was just found may not have written its name yet.
std::string read_owner(int file) {
  std::string record = read_record(file);
  for (int i = 0; i < 20 && record.empty(); ++i) {
    ::usleep(50'000);
    record = read_record(file);
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

// Whoever gives the folder back removes the file: what was opened may not be there any more when it
// is locked.
Locked open_locked(const std::string& path, Descriptor& file) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    file = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file.open()) refuse("cannot write " + path, errno);
    const Locked locked = lock(file.get(), path);
    if (locked == Locked::by_another || is_at(file.get(), path)) return locked;
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
    : folder_(std::move(folder)), path_(folder_ + "/lock"), times_(times) {
  made_ = make_run_folder(folder_);
  const Locked locked = open_locked(path_, file_);
  if (locked == Locked::by_another) throw in_use(folder_, path_, read_owner(file_.get()));
  const std::string before = read_record(file_.get());
  const bool dead = locked == Locked::yes && is_same_kernel(before);
  if (!before.empty() && !dead) {
    if (log != nullptr) {
      log->info(folder_ + " was left by " + describe(before) + "; waiting whether it is alive");
    }
    if (watch(path_)) throw in_use(folder_, path_, before);
  }
  write_owner();
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
  const auto began = Clock::now();
  while (seconds_since(began) < times_.patience_s) {
    std::this_thread::sleep_for(std::chrono::duration<double>(times_.patience_s / 30));
    if (time_of() != first) return true;
  }
  return false;
}

void RunLock::write_owner() {
  Json record;
  record["host"] = host_name();
  record["pid"] = ::getpid();
  record["boot"] = boot_id();
  record["started"] = utc_now();
  record["command"] = command_line();
  record["token"] = std::to_string(Clock::now().time_since_epoch().count()) + "-" +
                    std::to_string(reinterpret_cast<std::uintptr_t>(this));
  owner_ = record.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const auto size = static_cast<ssize_t>(owner_.size());
  if (::ftruncate(file_.get(), 0) != 0 ||
      ::pwrite(file_.get(), owner_.data(), owner_.size(), 0) != size || ::fsync(file_.get()) != 0) {
    refuse("cannot write " + path_, errno);
  }
}

// What the file says. One that is gone is still ours: nobody else is there.
std::string RunLock::owner_now() const {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  return file.open() ? read_record(file.get()) : owner_;
}

void RunLock::beat() {
  const auto pause = std::chrono::duration<double>(times_.beat_s);
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, pause, [this] { return ended_; })) {
    lock.unlock();  // the file may be slow, and check() must not be
    const std::string now = owner_now();
    if (now == owner_) ::futimens(file_.get(), nullptr);
    lock.lock();
    if (now == owner_) continue;
    lost_to_ = describe(now);
    return;
  }
}

void RunLock::check() const {
  const std::lock_guard lock(mutex_);
  if (lost_to_.empty()) return;
  throw Failure(folder_ + " was taken over by " + lost_to_ +
                ", which found no sign of life of this run: this one ends");
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

}  // namespace convoy::train
