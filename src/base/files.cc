#include "convoy/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "convoy/base/error.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) { return std::strerror(error); }

[[noreturn]] void fail_writing(const std::string& path, const char* operation, int error) {
  throw Failure("cannot write " + path + ": " + operation + ": " + reason(error));
}

// "" means the working directory.
std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string beside(const std::string& path) {
  static std::atomic<unsigned> count{0};
  const fs::path whole(path);
  return (whole.parent_path() / (".partial-" + whole.filename().string() + "-" +
                                 std::to_string(::getpid()) + "-" + std::to_string(count++)))
      .string();
}

// A trailing slash would make the last part of the path empty.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Makes what stands at this path, file or folder, survive a power cut. `path` is what messages
// name.
void sync_path(const std::string& what, const std::string& path) {
  const Descriptor file(::open(what.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) fail_writing(path, "open", errno);
  // Some file systems can't sync folders, and say so with EINVAL.
  if (::fsync(file.get()) != 0 && errno != EINVAL) fail_writing(path, "fsync", errno);
}

void sync_tree(const std::string& folder, const std::string& path) {
  std::error_code error;
  for (fs::recursive_directory_iterator i(folder, error), end; !error && i != end;
       i.increment(error)) {
    if (i->is_regular_file() || i->is_directory()) {
      const fs::path inside = i->path().lexically_relative(folder);
      sync_path(i->path().string(), (fs::path(path) / inside).string());
    }
  }
  if (error) fail_writing(path, "list", error.value());
  sync_path(folder, path);
}

void remove_leftovers(const std::string& parent) {
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (fs::directory_iterator i(parent, error), end; !error && i != end; i.increment(error)) {
    if (i->path().filename().string().starts_with(".partial-")) leftovers.push_back(i->path());
  }
  // What can't be removed takes space but does no harm.
  for (const fs::path& leftover : leftovers) fs::remove_all(leftover, error);
}

bool exchange(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

// `partial` becomes `path`. What was there is called `partial` afterwards, or is not there if
// nothing was.
void put_in_place(const std::string& partial, const std::string& path) {
  if (!fs::exists(fs::symlink_status(path))) {
    if (std::rename(partial.c_str(), path.c_str()) != 0) fail_writing(path, "rename", errno);
    return;
  }
  if (exchange(partial, path)) return;
  if (errno != EINVAL && errno != ENOSYS) fail_writing(path, "rename", errno);
  const std::string old = path + ".old";
  std::error_code ignored;
  fs::remove_all(old, ignored);
  if (std::rename(path.c_str(), old.c_str()) != 0) fail_writing(path, "rename", errno);
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    const int error = errno;
    (void)std::rename(old.c_str(), path.c_str());
    fail_writing(path, "rename", error);
  }
  (void)std::rename(old.c_str(), partial.c_str());
}

std::vector<std::byte> read_all(const std::string& path, std::size_t limit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) {
    throw UsageError("cannot read " + path + ": " + reason(errno));
  }
  if (S_ISDIR(status.st_mode)) throw UsageError("cannot read " + path + ": it is a folder");
  const auto too_large = [&]() {
    return UsageError("cannot read " + path + ": it is larger than the " + std::to_string(limit) +
                      " bytes that are accepted");
  };
  const auto size = static_cast<std::size_t>(status.st_size);
  if (S_ISREG(status.st_mode) && size > limit) throw too_large();
  std::vector<std::byte> bytes;
  std::size_t used = 0;
  // One byte more than the size tells the end without growing; a pipe has size 0.
  bytes.resize(std::max<std::size_t>(size + 1, S_ISREG(status.st_mode) ? 0 : 1 << 16));
  while (true) {
    if (used == bytes.size()) bytes.resize(bytes.size() * 2);
    const ssize_t got = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Failure("cannot read " + path + ": " + reason(errno));
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used > limit) throw too_large();
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace

std::vector<std::byte> read_file(const std::string& path, std::size_t limit) {
  return read_all(path, limit);
}

std::string read_text_file(const std::string& path, std::size_t limit) {
  const std::vector<std::byte> bytes = read_all(path, limit);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  do {  // another host that shares the folder may have the same pid
    partial_ = beside(path_);
    file_ = Descriptor(::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  } while (!file_.open() && errno == EEXIST);
  if (!file_.open()) fail_writing(path_, "open", errno);
}

AtomicFile::~AtomicFile() {
  if (!partial_.empty()) ::unlink(partial_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (!file_.open()) throw UsageError(path_ + " is closed: write before commit()");
  if (const int error = write_all(file_.get(), bytes)) fail_writing(path_, "write", error);
}

void AtomicFile::write(const std::string& text) { write(std::as_bytes(std::span(text))); }

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!file_.open()) throw UsageError(path_ + " is closed: write before commit()");
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_writing(path_, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::sync() {
  if (!file_.open()) throw UsageError(path_ + " is closed: sync before commit()");
  if (::fdatasync(file_.get()) != 0 && errno != EINVAL) fail_writing(path_, "fdatasync", errno);
}

void AtomicFile::commit() {
  if (!file_.open()) throw UsageError(path_ + " is closed: commit() it once");
  if (::fsync(file_.get()) != 0 && errno != EINVAL) fail_writing(path_, "fsync", errno);
  if (::close(file_.release()) != 0 && errno != EINTR) fail_writing(path_, "close", errno);
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail_writing(path_, "rename", errno);
  partial_.clear();
  sync_path(parent_of(path_), path_);
}

void move_into_place(const std::string& from, const std::string& to) {
  sync_path(from, from);
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_writing(to, "rename", errno);
  sync_path(parent_of(to), to);
}

void write_file_atomically(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

AtomicFolder::AtomicFolder(const std::string& path, Existing existing)
    : path_(without_slash(path)), parent_(parent_of(path_)) {
  if (existing == Existing::refuse && fs::exists(fs::symlink_status(path_))) {
    throw UsageError(path_ + " exists already; remove it or name another folder");
  }
  make_folders(parent_);
  remove_leftovers(parent_);
  const std::string partial = beside(path_);
  if (::mkdir(partial.c_str(), 0777) != 0) fail_writing(path_, "mkdir", errno);
  partial_ = partial;
}

AtomicFolder::~AtomicFolder() {
  // Others may still be putting files into it, or removing them, one each: what is then in the way
  // is not the next time.
  constexpr int kTries = 64;
  std::error_code error;
  for (int i = 0; i < kTries && !partial_.empty(); ++i) {
    fs::remove_all(partial_, error);
    if (!error) return;
  }
}

void AtomicFolder::commit() {
  const bool replaces = fs::exists(fs::symlink_status(path_));
  sync_tree(partial_, path_);
  put_in_place(partial_, path_);
  std::error_code ignored;
  try {
    sync_path(parent_, path_);
  } catch (...) {
    // Back to what was there: nobody may rely on a name that a power cut could take away.
    if (replaces) put_in_place(partial_, path_);
    if (!replaces) fs::remove_all(path_, ignored);
    throw;
  }
  if (replaces) fs::remove_all(partial_, ignored);
  partial_.clear();
}

void write_folder_atomically(const std::string& path,
                             const std::function<void(const std::string& folder)>& fill,
                             Existing existing) {
  AtomicFolder folder(path, existing);
  fill(folder.partial());
  folder.commit();
}

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(without_slash(path), error);
  if (!error && !fs::is_directory(path, error) && !error)
    error.assign(ENOTDIR, std::system_category());
  if (error) throw Failure("cannot make the folder " + path + ": " + error.message());
}

}  // namespace convoy
