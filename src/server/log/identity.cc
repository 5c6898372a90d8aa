#include "server/log/identity.h"

#include <algorithm>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server {
namespace {

constexpr const char* kName = "identity";
constexpr const char* kPartialIdentity = "partial-identity";
constexpr std::uint64_t kIdentityMagic = 0x3144494459564e43;  // "CNVYDID1"
constexpr std::uint16_t kIdentityVersion = 1;
constexpr std::size_t kMaxBytes = 65536;

bool is_there(const Disk& disk, const std::string& name) {
  const auto names = disk.list();
  return std::find(names.begin(), names.end(), name) != names.end();
}

void require_same(const std::string& folder, const char* what, const std::string& found,
                  const std::string& wanted) {
  if (found == wanted) return;
  throw UsageError("the folder " + folder + " belongs to " + what + " '" + found + "', not '" +
                   wanted + "': name another folder");
}

}  // namespace

std::string boot_id() {
  std::string id = read_text_file("/proc/sys/kernel/random/boot_id", 4096);
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

FolderIdentity::FolderIdentity(Disk& disk, const FolderOwner& owner, const std::string& boot,
                               Durability durability, std::uint64_t random)
    : disk_(disk), owner_(owner), boot_(boot), durability_(durability), salt_(random) {
  if (is_there(disk, kPartialIdentity)) disk.remove(kPartialIdentity);
  if (!is_there(disk, kName)) {
    fresh_ = true;
    save(false, 0);
    return;
  }
  const auto file = disk.open(kName);
  Bytes bytes(std::min<std::uint64_t>(file->size(), kMaxBytes));
  file->read(0, bytes);
  FolderOwner found;
  std::string boot_before;
  Durability durability_before;
  bool whole_before;
  try {
    if (bytes.size() < 8) throw UsageError("it is too short");
    const auto body = std::span<const std::byte>(bytes).first(bytes.size() - 8);
    Reader sum(std::span<const std::byte>(bytes).subspan(body.size()), "checksum");
    if (sum.u64() != xxh3(body)) throw UsageError("its checksum is another");
    Reader reader(body, "identity");
    if (reader.u64() != kIdentityMagic) reader.refuse("it is no identity of a folder");
    reader.version(kIdentityVersion);
    found.job = reader.text();
    found.shard = reader.u32();
    found.node = reader.text();
    boot_before = reader.text();
    durability_before = static_cast<Durability>(reader.u8());
    salt_ = reader.u64();
    whole_before = reader.boolean();
    was_closed_ = reader.boolean();
    closed_at_ = reader.u64();
    reader.end();
  } catch (const UsageError& error) {
    throw Failure(disk.path() + "/" + kName + " is damaged: " + error.what());
  }
  require_same(disk.path(), "job", found.job, owner.job);
  require_same(disk.path(), "shard", std::to_string(found.shard), std::to_string(owner.shard));
  require_same(disk.path(), "node", found.node, owner.node);
  const bool nothing_unsynced = was_closed_ || durability_before == Durability::synced;
  whole_ = whole_before && (boot_before == boot || nothing_unsynced);
  save(false, 0);
}

void FolderIdentity::opened(const Log& log) {
  if (whole_ && was_closed_ && log.last_index() < closed_at_) set_whole(false);
}

void FolderIdentity::set_whole(bool whole) {
  whole_ = whole;
  save(false, 0);
}

void FolderIdentity::close(const Log& log) {
  if (log.synced_index() != log.last_index()) {
    throw UsageError("a folder is closed when its log is synced");
  }
  save(true, log.last_index());
}

void FolderIdentity::save(bool closed, std::uint64_t last_index) {
  Writer writer;
  writer.u64(kIdentityMagic);
  writer.u16(kIdentityVersion);
  writer.text(owner_.job);
  writer.u32(owner_.shard);
  writer.text(owner_.node);
  writer.text(boot_);
  writer.u8(static_cast<std::uint8_t>(durability_));
  writer.u64(salt_);
  writer.boolean(whole_);
  writer.boolean(closed);
  writer.u64(last_index);
  writer.u64(xxh3(writer.view()));
  if (is_there(disk_, kPartialIdentity)) disk_.remove(kPartialIdentity);
  const auto file = disk_.create(kPartialIdentity);
  file->append(writer.view());
  file->sync();
  disk_.rename(kPartialIdentity, kName);
  disk_.sync_names();
}

}  // namespace convoy::server
