// Files of a node's folder beside its log: the first byte says which. 0: a snapshot, as it lies
// there or comes from another node; 1: whose folder it is, without
// its checksum.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "server/log/identity.h"
#include "server/log/simulated_disk.h"
#include "server/log/snapshots.h"
#include "server/wire/writer.h"

namespace {

using namespace convoy::server;

void snapshot(std::span<const std::byte> bytes) {
  SimulatedDisk disk;
  Snapshots snapshots(disk);
  {
    SnapshotReceiver receiver(disk, {7, 2});
    receiver.append(bytes.first(bytes.size() / 2));
    receiver.append(bytes.subspan(bytes.size() / 2));
    receiver.commit();  // throws unless it is whole
  }
  // So it can be read, to its end and not behind it.
  snapshots.read({7, 2}, [](SnapshotSource& source) {
    std::byte one[16];
    try {
      while (true) source.read(one);
    } catch (const convoy::Failure&) {
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  try {
    if (data[0] % 2 == 0) {
      snapshot(bytes);
    } else {
      SimulatedDisk disk;
      // With the checksum that it should have, so that there is something to read.
      Writer file;
      file.raw(bytes);
      file.u64(convoy::xxh3(bytes));
      disk.put("identity", file.view());
      FolderIdentity(disk, {"job", 1, "2"}, "boot", Durability::replicated, 5).set_whole(true);
      FolderIdentity(disk, {"job", 1, "2"}, "boot", Durability::replicated, 5);
    }
  } catch (const convoy::UsageError&) {
  } catch (const convoy::Failure&) {
  }
  return 0;
}
