// What a process has pushed, written down, so that it can be compared with what servers say is in
// the parameters: for trials of faults (docs/downpour-operations.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "convoy/base/descriptor.h"
#include "convoy/server/client.h"

namespace convoy::cli {

// Files in the folder that CONVOY_PUSH_RECORDS names; without it nothing is done. A file for each
// client, CLIENT-PROCESS.log, with a line for each event: "+ ID" before a push, "= ID" when all
// servers have applied it, "~ ID" when one of them has not. The ids go into the servers' ledgers.
class PushRecords {
 public:
  PushRecords();

  bool on() const { return !folder_.empty(); }
  // A new id; `client` is the client's. REQUIRES: on().
  std::uint64_t begin(std::uint64_t client);
  void end(std::uint64_t id, bool applied);
  // Writes FOLDER/status.json: the job's status, with reports of the shards that are newer than
  // this call. REQUIRES: on().
  void write_status(server::Client& client) const;

 private:
  void write(char what, std::uint64_t id);

  std::string folder_;
  std::uint64_t client_ = 0;
  std::uint64_t count_ = 0;
  Descriptor file_;
};

}  // namespace convoy::cli
