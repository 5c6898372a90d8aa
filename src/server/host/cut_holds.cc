#include "server/host/cut_holds.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "server/state/commands.h"

namespace convoy::server::host {

std::optional<PushHead> push_head(std::span<const std::byte> command) {
  try {
    Reader reader(command, "command");
    reader.version(kCommandVersion);
    if (reader.u8() != static_cast<std::uint8_t>(CommandNumber::push)) return std::nullopt;
    PushHead head;
    head.client = reader.u64();
    head.sequence = reader.u64();
    return head;
  } catch (const UsageError&) {
    return std::nullopt;  // the shard says what is wrong with it
  }
}

bool CutHolds::holds(const PushHead& push) const {
  for (const Cut& cut : cuts_) {
    for (const LastPush& last : cut.request.until) {
      if (last.client == push.client && push.sequence > last.sequence) return true;
    }
  }
  return false;
}

bool CutHolds::hold(const PushHead& push, Waiting& waiting) {
  if (!holds(push)) return false;
  waiting_bytes_ += waiting.command->size();
  waiting_.emplace_back(push, std::move(waiting));
  return true;
}

CutHolds::Decided CutHolds::decide(Clock::time_point now,
                                   const std::map<std::uint64_t, std::uint64_t>& sequences) {
  Decided decided;
  for (auto cut = cuts_.begin(); cut != cuts_.end();) {
    std::string missing, passed;
    for (const LastPush& last : cut->request.until) {
      const auto found = sequences.find(last.client);
      const std::uint64_t sequence = found == sequences.end() ? 0 : found->second;
      if (sequence == last.sequence) continue;
      (sequence < last.sequence ? missing : passed) =
          "client " + std::to_string(last.client) + " is at push " + std::to_string(sequence) +
          ", the cut is to be at " + std::to_string(last.sequence);
    }
    if (missing.empty() && passed.empty()) {
      decided.make.push_back(std::move(*cut));
    } else if (!passed.empty() || now >= cut->until) {
      decided.refuse.emplace_back(std::move(cut->answer), passed.empty() ? missing : passed);
    } else {
      ++cut;
      continue;
    }
    cut = cuts_.erase(cut);
  }
  release(decided);
  return decided;
}

CutHolds::Decided CutHolds::end(const std::string& why) {
  Decided decided;
  for (Cut& cut : cuts_) decided.refuse.emplace_back(std::move(cut.answer), why);
  cuts_.clear();
  release(decided);
  return decided;
}

void CutHolds::release(Decided& decided) {
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    if (holds(one->first)) {
      ++one;
      continue;
    }
    waiting_bytes_ -= one->second.command->size();
    decided.go_on.push_back(std::move(one->second));
    one = waiting_.erase(one);
  }
}

}  // namespace convoy::server::host
