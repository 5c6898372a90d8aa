// Where replicas of a batch optimization ask for work: a ledger of groups, and the requests that
// wait for something to be in it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/effects.h"
#include "server/coordinator/group_journal.h"
#include "server/coordinator/group_ledger.h"
#include "server/service/portion_calls.h"

namespace convoy::server::coordinator {

// A request that finds nothing waits here until there is something, at most `longest`, so that who
// is idle needn't ask again and again. Without a clock, as the ledger.
//
// One thread at a time.
class GroupDesk {
 public:
  static constexpr Time kLongest = replication::milliseconds(5000);

  explicit GroupDesk(const GroupOptions& options, Time longest = kLongest)
      : ledger_(options), portions_(options.portions), longest_(longest) {}

  using Answers = std::vector<std::pair<CallId, calls::PortionAnswer>>;

  // Each has an effect on requests that wait: answers() then has what there is to say to them.
  void begin(Time now, const EvaluationId& evaluation);
  void end() { ledger_.end(); }
  void enter(std::uint64_t replica, const std::string& name = {});
  void leave(Time now, std::uint64_t replica);
  void missing(std::uint32_t begin, std::uint32_t end) { ledger_.missing(begin, end); }
  // Of a replica that has entered. A request of the same replica that waits is answered: it was
  // given up. Throws UsageError for what a ledger refuses.
  void ask(Time now, CallId call, const calls::PortionRequest& request);

  Answers answers(Time now);
  // The job is over: who waits is told why.
  void finish(Time now, const std::string& why);
  // When to ask for them again, if nothing happens before; GroupLedger::kNever: no time.
  Time due() const;

  const GroupLedger& ledger() const { return ledger_; }
  GroupLedger& ledger() { return ledger_; }
  const GroupJournal& journal() const { return journal_; }
  std::uint64_t bytes() const { return bytes_; }  // of requests and answers so far

 private:
  struct Waiting {
    CallId call = 0;
    calls::PortionRequest request;
    Time since = 0;
    Time again = 0;  // when its replica may get something, though nothing happens
  };
  bool answer(Time now, Waiting& waiting, calls::PortionAnswer& answer);

  GroupLedger ledger_;
  GroupJournal journal_;
  std::uint32_t portions_;
  Time longest_;
  std::map<std::uint64_t, Waiting> waiting_;  // by replica
  Answers given_up_;
  std::uint64_t bytes_ = 0;
};

}  // namespace convoy::server::coordinator
