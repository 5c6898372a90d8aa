// What a coordinator has stored: the first byte says what. 0: a snapshot of its keys, 1: records of
// its log, each 16-bit length and so many bytes; 2: its ledger and, behind a 16-bit length, what a
// replica has; 3: a configuration; 4: what a batch optimization goes on from and, behind a 16-bit
// length, what it was told; 5: its ledger of groups and, each behind a 16-bit length, blocks of it.
// What was read can be used.
#include <cstdint>
#include <cstring>
#include <span>

#include "convoy/base/error.h"
#include "server/coordinator/batch_record.h"
#include "server/coordinator/configuration_keeper.h"
#include "server/coordinator/group_ledger.h"
#include "server/coordinator/key_state.h"
#include "server/coordinator/ledger.h"

namespace {

using namespace convoy::server;
using namespace convoy::server::coordinator;  // NOLINT

struct Source : SnapshotSource {
  explicit Source(std::span<const std::byte> bytes) : left(bytes) {}
  void read(std::span<std::byte> to) override {
    if (to.size() > left.size()) throw convoy::Failure("cut short");
    std::copy_n(left.begin(), to.size(), to.begin());
    left = left.subspan(to.size());
  }
  std::span<const std::byte> left;
};

struct Nowhere : SnapshotSink {
  void write(std::span<const std::byte>) override {}
};

// A 16-bit length and so many bytes, or what there is.
std::span<const std::byte> next(std::span<const std::byte>& left) {
  std::uint16_t length;
  std::memcpy(&length, left.data(), 2);
  left = left.subspan(2);
  const auto bytes = left.first(std::min<std::size_t>(length, left.size()));
  left = left.subspan(bytes.size());
  return bytes;
}

void ledger(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return;
  JobPlan plan;
  plan.batch = 4;
  plan.portion = 8;
  plan.epochs = 3;
  Ledger ledger(plan, 100);
  const auto whole = next(bytes);
  ledger.decode(whole);
  std::uint64_t group = 1;
  while (bytes.size() >= 2) ledger.decode(group++, next(bytes));
  ledger.encode();
  ledger.view();
  for (std::uint64_t each = 1; each < group; ++each) {
    ledger.encode(each);
    ledger.hand_out(each, 0, 2);
    const auto held = ledger.held(each);
    if (!held.empty()) ledger.finished(each, held.front().number);
    ledger.leave(each, 0, 0);
  }
}

void groups(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return;
  GroupOptions options;
  options.portions = 600;
  GroupLedger ledger(options);
  ledger.decode(next(bytes));
  for (std::uint32_t block = 0; bytes.size() >= 2; ++block) ledger.decode(block, next(bytes));
  ledger.enter(1);
  for (int i = 0; i < 3; ++i) {
    const auto handed = ledger.lease(i, 1, {});
    if (handed.kind != GroupLedger::Handed::Kind::group) break;
    ledger.finished(i, 1, ledger.evaluation(), handed.group,
                    std::vector<double>(portions_of(handed.group), 1.0));
  }
  ledger.encode(0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  try {
    switch (data[0] % 6) {
      case 0: {
        KeyState state;
        Source source(bytes);
        state.load(source);
        Nowhere nowhere;
        state.image()->save(nowhere);
        break;
      }
      case 1: {
        KeyState state;
        while (bytes.size() >= 2) state.apply(state.applied() + 1, next(bytes));
        break;
      }
      case 2:
        ledger(bytes);
        break;
      case 4:
        if (bytes.size() < 2) break;
        encode(decode_batch_start(next(bytes)));
        encode(decode_batch_answers(bytes));
        break;
      case 5:
        groups(bytes);
        break;
      case 3:
        ConfigurationKeeper::encode(ConfigurationKeeper::decode({1, {bytes.begin(), bytes.end()}}));
        break;
    }
  } catch (const convoy::UsageError&) {
  } catch (const convoy::Failure&) {
  }
  return 0;
}
