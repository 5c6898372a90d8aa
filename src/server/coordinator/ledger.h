// Who has which samples, and which are done.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/server/client.h"
#include "convoy/server/job.h"
#include "server/coordinator/ranges.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server::coordinator {

// How far a replica is, as its pushes say: portion number << 32 | samples of it that are done.
using Progress = std::uint64_t;

struct HeldPortion {
  std::uint64_t group = 0;
  Portion portion;
};

// What the ledger says at one moment.
struct LedgerView {
  std::uint64_t first_open = 0;          // epoch
  std::uint64_t length = 0;              // of an epoch, in samples
  std::uint64_t closed = 0;              // samples of the epochs before, as far as they are done
  std::map<std::uint64_t, Ranges> done;  // of the epochs from first_open on
  std::vector<HeldPortion> held;
  bool all_done = false;

  // Adds what of the portions in `held` is done by replicas that are so far, and says all of it.
  // A portion of which nothing is known to be done counts as not done.
  void fill(const std::map<std::uint64_t, Progress>& groups, JobProgress& progress) const;
};

// The portions of a job (docs/server-coordinator.md). A replica is a group of clients; what one
// loses is handed out again before anything new. Without clock, I/O and chance: the same calls lead
// to the same ledger.
//
// Every sample of every epoch is done once: by the replica that says so (finished) or whose pushes
// do (leave); what others had done of it besides is in twice().
//
// One thread at a time.
class Ledger {
 public:
  // REQUIRES: a plan that check() accepts.
  Ledger(const JobPlan& plan, std::uint64_t epoch_samples);

  static constexpr std::uint64_t kAnyRound = UINT64_MAX;

  // A replica takes part. Until then, and after leave(), nothing is its.
  void enter(std::uint64_t group);
  bool has(std::uint64_t group) const { return groups_.contains(group); }

  struct Handed {
    enum class Kind { portion, wait, finished };
    Kind kind = Kind::wait;
    Portion portion;
    bool changed = false;  // it was not its before
  };
  // The next portion for a replica that knows of portions up to number `last`; one that is its
  // already and has a larger number comes again. It may hold `ahead` at once; the portion has at
  // most `most` samples; none in a round of which others have all that its epoch has. `round`: of
  // the shards, that it will push this in: where replicas say so, rounds of the ledger are theirs,
  // whoever comes late; else each has a share of one before the next begins. wait: nothing now,
  // perhaps later. finished: nothing ever. REQUIRES: has(group), ahead >= 1, most >= 1.
  Handed hand_out(std::uint64_t group, std::uint64_t last, std::size_t ahead,
                  std::uint64_t most = UINT64_MAX, std::uint64_t round = kAnyRound);

  // All of a portion is done. False, and nothing changes, unless the replica holds it.
  bool finished(std::uint64_t group, std::uint64_t number);

  // A replica is no more. By every shard it is done up to `least`, by some up to `most`.
  struct Lost {
    std::uint64_t done = 0;   // samples of what it held
    std::uint64_t rest = 0;   // samples that are handed out again
    std::uint64_t twice = 0;  // of these, those that some shard has already
  };
  Lost leave(std::uint64_t group, Progress least, Progress most);

  bool all_handed() const;  // nothing is left for anybody who asks
  bool all_done() const { return all_handed() && holding_ == 0; }
  std::uint64_t samples() const;  // done, also before this job began, each counted once
  std::uint64_t twice() const { return twice_; }
  std::uint64_t redone() const { return redone_; }
  std::uint64_t epoch_length() const { return length_; }
  // Samples after which all is done, with those before this job began; 0: epochs alone say.
  std::uint64_t limit() const { return samples_; }
  std::uint64_t left_to_redo() const { return redo_samples_; }
  std::span<const Portion> held(std::uint64_t group) const;
  LedgerView view() const;

  // Its bytes: of all that isn't one replica's, and of each replica.
  Bytes encode() const;
  Bytes encode(std::uint64_t group) const;  // REQUIRES: has(group)
  // Of a ledger that was stored: all but the replicas, then each of them. Throw UsageError for what
  // encode() can't have made.
  void decode(std::span<const std::byte> bytes);
  void decode(std::uint64_t group, std::span<const std::byte> bytes);
  // Some changes before this may be forgotten: no number is given out again.
  void skip_numbers() { next_number_ += kSkipped; }

 private:
  static constexpr std::uint64_t kSkipped = 4096;
  struct Rest {
    std::uint64_t epoch = 0, begin = 0, end = 0;
  };
  struct Group {
    std::vector<Portion> portions;  // by number
    std::uint64_t round = 0;        // in which it had its last share
  };

  std::uint64_t samples_of_rounds(std::uint64_t unit) const;
  bool take(std::uint64_t most, Portion& portion);
  void take_rest(std::uint64_t most, Portion& portion);
  std::uint64_t share(std::uint64_t left) const;
  void next_round();
  bool to_round(const Group& group, std::uint64_t round);
  // Where the next new samples are; nothing is left if it is empty.
  Range next_new(std::uint64_t& epoch, std::uint64_t position) const;
  void done(std::uint64_t epoch, std::uint64_t begin, std::uint64_t end);

  const std::uint64_t batch_, portion_;
  std::uint64_t samples_;
  const std::uint64_t epochs_;
  const bool rounds_;
  std::uint64_t length_ = 0;

  std::uint64_t first_open_ = 0;
  std::uint64_t closed_ = 0;
  std::map<std::uint64_t, Ranges> done_;  // of epochs from first_open_ on
  std::uint64_t epoch_ = 0;               // that is handed out,
  std::uint64_t position_ = 0;            // from here on
  std::uint64_t handed_ = 0;              // samples, each counted once
  std::uint64_t next_number_ = 1;
  std::deque<Rest> redo_;
  std::uint64_t redo_samples_ = 0;
  std::uint64_t twice_ = 0, redone_ = 0;
  std::map<std::uint64_t, Group> groups_;
  std::size_t holding_ = 0;                    // portions
  std::uint64_t round_ = 1;                    // in rounds
  std::optional<std::uint64_t> shards_round_;  // that this one is, as replicas say
  std::size_t shares_due_ = 0;                 // replicas that have had none of it
  // Of the samples of this round; nothing before its first share. Who had that may be gone.
  std::optional<std::uint64_t> round_epoch_;
};

}  // namespace convoy::server::coordinator
