// Files of a real folder.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "convoy/base/descriptor.h"
#include "convoy/base/files.h"
#include "server/log/disk.h"

namespace convoy::server {
namespace {

constexpr const char* kLock = "lock";

[[noreturn]] void fail(const std::string& path, const char* operation, int error) {
  const std::string what = "cannot " + std::string(operation) + " " + path + ": " +
                           std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) throw DiskFull(what);
  throw Failure(what);
}

class FolderFile final : public DiskFile {
 public:
  FolderFile(std::string path, int flags) : path_(std::move(path)) {
    file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC | flags, 0600));
    struct stat status {};
    if (!file_.open()) fail(path_, (flags & O_CREAT) != 0 ? "create" : "open", errno);
    if (::fstat(file_.get(), &status) != 0) fail(path_, "stat", errno);
    size_ = static_cast<std::uint64_t>(status.st_size);
  }

  std::uint64_t size() const override { return size_; }

  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    while (!to.empty()) {
      const ssize_t got = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(path_, "read", errno);
      if (got == 0) {
        throw Failure("cannot read " + path_ + ": it ends at byte " + std::to_string(offset) +
                      ", " + std::to_string(to.size()) + " more should be there");
      }
      offset += static_cast<std::uint64_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
  }

  void append(std::span<const std::byte> first, std::span<const std::byte> second) override {
    std::uint64_t at = size_;
    while (!first.empty() || !second.empty()) {
      const iovec pieces[2] = {{const_cast<std::byte*>(first.data()), first.size()},
                               {const_cast<std::byte*>(second.data()), second.size()}};
      const ssize_t written = ::pwritev(file_.get(), pieces, 2, static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        const int error = errno;
        size_ = at;
        fail(path_, "write", error);
      }
      const auto count = static_cast<std::size_t>(written);
      const std::size_t of_first = std::min(count, first.size());
      first = first.subspan(of_first);
      second = second.subspan(count - of_first);
      at += count;
    }
    size_ = at;
  }

  void truncate(std::uint64_t size) override {
    if (::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) fail(path_, "truncate", errno);
    size_ = size;
  }

  void sync() override {
    if (::fdatasync(file_.get()) != 0) fail(path_, "fdatasync", errno);
  }

 private:
  std::string path_;
  Descriptor file_;
  std::atomic<std::uint64_t> size_{0};
};

class Folder final : public Disk {
 public:
  explicit Folder(const std::string& path) : path_(path) {
    make_folders(path);
    folder_ = Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_.open()) fail(path, "open", errno);
    const std::string name = file(kLock);
    lock_ = Descriptor(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock_.open()) fail(name, "open", errno);
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return;
    if (errno != EWOULDBLOCK) fail(name, "lock", errno);
    throw Failure("the folder " + path +
                  " is in use by another process: end it, or name another folder");
  }

  std::vector<std::string> list() const override {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator i(path_, error), end; !error && i != end;
         i.increment(error)) {
      std::string name = i->path().filename().string();
      if (name != kLock) names.push_back(std::move(name));
    }
    if (error) fail(path_, "list", error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::unique_ptr<DiskFile> create(const std::string& name) override {
    return std::make_unique<FolderFile>(file(name), O_CREAT | O_EXCL);
  }
  std::unique_ptr<DiskFile> open(const std::string& name) override {
    return std::make_unique<FolderFile>(file(name), 0);
  }
  void rename(const std::string& from, const std::string& to) override {
    if (std::rename(file(from).c_str(), file(to).c_str()) != 0) fail(file(from), "rename", errno);
  }
  void remove(const std::string& name) override {
    if (::unlink(file(name).c_str()) != 0) fail(file(name), "remove", errno);
  }
  void sync_names() override {
    // Some file systems can't sync folders, and say so with EINVAL.
    if (::fsync(folder_.get()) != 0 && errno != EINVAL) fail(path_, "fsync", errno);
  }
  std::string path() const override { return path_; }

 private:
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  std::string path_;
  Descriptor folder_;
  Descriptor lock_;
};

}  // namespace

std::unique_ptr<Disk> open_folder(const std::string& path) {
  return std::make_unique<Folder>(path);
}

}  // namespace convoy::server
