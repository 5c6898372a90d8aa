#include "server/log/simulated_disk.h"

#include <algorithm>

#include "convoy/base/random.h"

namespace convoy::server {

namespace {

constexpr std::size_t kSector = 512;

struct Content {
  Bytes now;
  Bytes synced;
};

using Names = std::map<std::string, std::shared_ptr<Content>>;

// `content` after a power cut.
void forget(Content& content, RandomStream& random) {
  const std::size_t least = std::min(content.now.size(), content.synced.size());
  const std::size_t most = std::max(content.now.size(), content.synced.size());
  const std::size_t size = least + random.below(most - least + 1);
  Bytes left(size);
  for (std::size_t at = 0; at < size; at += kSector) {
    const std::size_t end = std::min(size, at + kSector);
    const Bytes& from = random.below(2) == 0 ? content.now : content.synced;
    // What neither has written reads as zeros.
    for (std::size_t i = at; i < std::min(end, from.size()); ++i) left[i] = from[i];
  }
  content.now = left;
  content.synced = std::move(left);
}

}  // namespace

struct SimulatedDisk::Shared {
  mutable std::mutex mutex;
  Names names;
  std::vector<Names> unsynced_names;  // as they were before each change since the last sync
  std::uint64_t capacity = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t power_cuts = 0;
  std::uint64_t largest_read = 0;
  bool syncs_fail = false;

  std::uint64_t used() const {
    std::uint64_t bytes = 0;
    for (const auto& [name, content] : names) bytes += content->now.size();
    return bytes;
  }
  Content& at(const std::string& name) const {
    const auto found = names.find(name);
    if (found == names.end()) throw Failure("cannot open " + name + ": there is no such file");
    return *found->second;
  }
  void change_names(const std::function<void()>& change) {
    unsynced_names.push_back(names);
    change();
  }
};

namespace {

class SimulatedFile final : public DiskFile {
 public:
  SimulatedFile(std::shared_ptr<SimulatedDisk::Shared> disk, std::string name,
                std::shared_ptr<Content> content)
      : disk_(std::move(disk)),
        name_(std::move(name)),
        content_(std::move(content)),
        power_cuts_(disk_->power_cuts) {}

  std::uint64_t size() const override {
    const std::lock_guard lock(disk_->mutex);
    return content().now.size();
  }

  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    const std::lock_guard lock(disk_->mutex);
    const Bytes& bytes = content().now;
    disk_->largest_read = std::max<std::uint64_t>(disk_->largest_read, to.size());
    if (offset > bytes.size() || to.size() > bytes.size() - offset) {
      throw Failure("cannot read " + name_ + ": it ends at byte " + std::to_string(bytes.size()));
    }
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
  }

  void append(std::span<const std::byte> first, std::span<const std::byte> second) override {
    const std::lock_guard lock(disk_->mutex);
    Bytes& bytes = content().now;
    for (std::span<const std::byte> piece : {first, second}) {
      const std::uint64_t used = disk_->used();
      const std::uint64_t room = disk_->capacity > used ? disk_->capacity - used : 0;
      const auto fits = piece.first(std::min<std::uint64_t>(piece.size(), room));
      bytes.insert(bytes.end(), fits.begin(), fits.end());
      if (fits.size() < piece.size()) {
        throw DiskFull("cannot write " + name_ + ": no space left on the device");
      }
    }
  }

  void truncate(std::uint64_t size) override {
    const std::lock_guard lock(disk_->mutex);
    content().now.resize(size);
  }

  void sync() override {
    const std::lock_guard lock(disk_->mutex);
    if (disk_->syncs_fail) throw Failure("cannot fdatasync " + name_ + ": input/output error");
    content().synced = content().now;
  }

 private:
  Content& content() const {
    if (power_cuts_ != disk_->power_cuts) throw Failure(name_ + ": the power was cut");
    return *content_;
  }

  std::shared_ptr<SimulatedDisk::Shared> disk_;
  std::string name_;
  std::shared_ptr<Content> content_;
  std::uint64_t power_cuts_;
};

}  // namespace

SimulatedDisk::SimulatedDisk() : shared_(std::make_shared<Shared>()) {}
SimulatedDisk::~SimulatedDisk() = default;

void SimulatedDisk::power_cut(std::uint64_t seed) {
  const std::lock_guard lock(shared_->mutex);
  ++shared_->power_cuts;
  RandomStream random(seed);
  auto& unsynced = shared_->unsynced_names;
  const std::size_t kept = random.below(unsynced.size() + 1);
  if (kept < unsynced.size()) shared_->names = unsynced[kept];
  unsynced.clear();
  for (auto& [name, content] : shared_->names) forget(*content, random);
}

void SimulatedDisk::set_capacity(std::uint64_t bytes) {
  const std::lock_guard lock(shared_->mutex);
  shared_->capacity = bytes;
}

void SimulatedDisk::fail_syncs() {
  const std::lock_guard lock(shared_->mutex);
  shared_->syncs_fail = true;
}

void SimulatedDisk::flip(const std::string& name, std::uint64_t offset, std::uint8_t mask) {
  const std::lock_guard lock(shared_->mutex);
  Content& content = shared_->at(name);
  content.now.at(offset) ^= std::byte{mask};
  if (offset < content.synced.size()) content.synced[offset] = content.now[offset];
}

void SimulatedDisk::put(const std::string& name, std::span<const std::byte> bytes) {
  const std::lock_guard lock(shared_->mutex);
  auto content = std::make_shared<Content>();
  content->now.assign(bytes.begin(), bytes.end());
  content->synced = content->now;
  shared_->names[name] = content;
  for (Names& names : shared_->unsynced_names) names[name] = content;
}

Bytes SimulatedDisk::get(const std::string& name) const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->at(name).now;
}

std::uint64_t SimulatedDisk::used() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->used();
}

std::uint64_t SimulatedDisk::largest_read() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->largest_read;
}

std::vector<std::string> SimulatedDisk::list() const {
  const std::lock_guard lock(shared_->mutex);
  std::vector<std::string> names;
  for (const auto& [name, content] : shared_->names) names.push_back(name);
  return names;
}

std::unique_ptr<DiskFile> SimulatedDisk::create(const std::string& name) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->names.contains(name)) throw Failure("cannot create " + name + ": it is there");
  auto content = std::make_shared<Content>();
  shared_->change_names([&] { shared_->names[name] = content; });
  return std::make_unique<SimulatedFile>(shared_, name, content);
}

std::unique_ptr<DiskFile> SimulatedDisk::open(const std::string& name) {
  const std::lock_guard lock(shared_->mutex);
  shared_->at(name);
  return std::make_unique<SimulatedFile>(shared_, name, shared_->names[name]);
}

void SimulatedDisk::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(shared_->mutex);
  shared_->at(from);
  shared_->change_names([&] {
    shared_->names[to] = shared_->names[from];
    shared_->names.erase(from);
  });
}

void SimulatedDisk::remove(const std::string& name) {
  const std::lock_guard lock(shared_->mutex);
  shared_->at(name);
  shared_->change_names([&] { shared_->names.erase(name); });
}

void SimulatedDisk::sync_names() {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->syncs_fail) throw Failure("cannot fsync the simulated disk: input/output error");
  shared_->unsynced_names.clear();
}

}  // namespace convoy::server
