#include "server/log/memory_disk.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace convoy::server {
namespace {

// Bytes in pieces, so that a file that grows is not copied.
class MemoryContent {
 public:
  std::uint64_t size() const {
    const std::lock_guard lock(mutex_);
    return size_;
  }

  bool read(std::uint64_t offset, std::span<std::byte> to) const {
    const std::lock_guard lock(mutex_);
    if (offset > size_ || to.size() > size_ - offset) return false;
    while (!to.empty()) {
      const std::size_t count = std::min<std::uint64_t>(to.size(), kPiece - offset % kPiece);
      std::memcpy(to.data(), pieces_[offset / kPiece].get() + offset % kPiece, count);
      to = to.subspan(count);
      offset += count;
    }
    return true;
  }

  void append(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    while (!bytes.empty()) {
      if (size_ == pieces_.size() * kPiece) {
        pieces_.emplace_back(new std::byte[kPiece]);
      }
      const std::size_t count = std::min<std::uint64_t>(bytes.size(), kPiece - size_ % kPiece);
      std::memcpy(pieces_.back().get() + size_ % kPiece, bytes.data(), count);
      bytes = bytes.subspan(count);
      size_ += count;
    }
  }

  void truncate(std::uint64_t size) {
    const std::lock_guard lock(mutex_);
    size_ = std::min(size_, size);
    pieces_.resize((size_ + kPiece - 1) / kPiece);
  }

 private:
  static constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  mutable std::mutex mutex_;
  std::uint64_t size_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> pieces_;
};

class MemoryFile final : public DiskFile {
 public:
  MemoryFile(std::shared_ptr<MemoryContent> content, std::string path)
      : content_(std::move(content)), path_(std::move(path)) {}

  std::uint64_t size() const override { return content_->size(); }
  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (!content_->read(offset, to)) {
      throw Failure("cannot read " + path_ + ": it ends before byte " +
                    std::to_string(offset + to.size()));
    }
  }
  void append(std::span<const std::byte> first, std::span<const std::byte> second) override {
    content_->append(first);
    content_->append(second);
  }
  void truncate(std::uint64_t size) override { content_->truncate(size); }
  void sync() override {}

 private:
  std::shared_ptr<MemoryContent> content_;
  std::string path_;
};

class MemoryDisk final : public Disk {
 public:
  explicit MemoryDisk(std::string name) : name_(std::move(name)) {}

  std::vector<std::string> list() const override {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, content] : files_) names.push_back(name);
    return names;
  }
  std::unique_ptr<DiskFile> create(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    const auto [at, made] = files_.try_emplace(name, std::make_shared<MemoryContent>());
    if (!made) throw Failure("cannot create " + name_ + "/" + name + ": it is there already");
    return std::make_unique<MemoryFile>(at->second, name_ + "/" + name);
  }
  std::unique_ptr<DiskFile> open(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    return std::make_unique<MemoryFile>(find(name)->second, name_ + "/" + name);
  }
  void rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    const auto at = find(from);
    auto content = std::move(at->second);
    files_.erase(at);
    files_[to] = std::move(content);
  }
  void remove(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    files_.erase(find(name));
  }
  void sync_names() override {}
  std::string path() const override { return name_; }

 private:
  using Files = std::map<std::string, std::shared_ptr<MemoryContent>>;
  Files::iterator find(const std::string& name) {
    const auto at = files_.find(name);
    if (at == files_.end()) throw Failure("cannot open " + name_ + "/" + name + ": there is none");
    return at;
  }

  const std::string name_;
  mutable std::mutex mutex_;
  Files files_;
};

}  // namespace

std::unique_ptr<Disk> memory_disk(const std::string& name) {
  return std::make_unique<MemoryDisk>(name);
}

}  // namespace convoy::server
