#include "train/strategies/downpour/leased_source.h"

#include <algorithm>
#include <array>
#include <string>

#include "convoy/base/error.h"

namespace convoy::train {
namespace {

// Between two looks at whether to stop.
constexpr std::uint64_t kPauseMs = 200;

}  // namespace

LeasedSource::LeasedSource(const comm::Communicator& ranks, data::SampleSource& loader,
                           std::shared_ptr<data::Portions> portions, std::size_t batch,
                           std::size_t ahead, bool across)
    : ranks_(ranks.duplicate()),
      loader_(loader),
      portions_(std::move(portions)),
      batch_(batch),
      ahead_(ahead),
      across_(across) {}

void LeasedSource::connect(ParameterService& service) {
  disconnect();
  portions_->clear();
  loader_.seek({});  // nothing of what was prepared
  portions_->clear();
  open_.clear();
  used_.clear();
  part_ = {};
  progress_ = {};
  ends_ = false;
  service_ = &service;
  if (ranks_.rank() == 0) leases_.emplace(service, across_);
}

void LeasedSource::disconnect() { leases_.reset(); }

bool LeasedSource::any(bool here) const {
  if (ranks_.size() == 1) return here;
  std::array<std::int64_t, 1> ranks{here ? 1 : 0};
  ranks_.allreduce(comm::buffer_of(ranks), comm::ReduceOp::max);
  return ranks[0] > 0;
}

std::size_t LeasedSource::batches_open() const {
  std::size_t batches = 0;
  for (const Open& open : open_) batches += (open.portion.end - open.at + batch_ - 1) / batch_;
  return batches;
}

std::optional<Leases::Answer::Kind> LeasedSource::take(std::uint64_t milliseconds) {
  std::array<std::int64_t, 6> told{};
  std::string error;
  if (leases_) {
    Leases::Answer answer;
    std::int64_t failed = 0;
    try {
      answer = leases_->take(milliseconds);
    } catch (const Failure& failure) {
      error = failure.what();
      failed = service_->lost() || !service_->ended().empty() ? 1 : 2;
    }
    const auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
    told = {static_cast<std::int64_t>(answer.kind),
            number(answer.portion.number),
            number(answer.portion.epoch),
            number(answer.portion.begin),
            number(answer.portion.end),
            failed};
  }
  if (ranks_.size() > 1) ranks_.broadcast(comm::buffer_of(told), 0);
  if (told[5] == 1) return std::nullopt;
  if (told[5] == 2) throw Failure(error.empty() ? "the first rank of this replica failed" : error);
  const auto kind = static_cast<Leases::Answer::Kind>(told[0]);
  if (kind != Leases::Answer::Kind::portion) return kind;
  const auto number = [&told](std::size_t i) { return static_cast<std::uint64_t>(told[i]); };
  const server::Portion portion{number(1), number(2), number(3), number(4)};
  if (portion.begin < portion.end) {
    open_.push_back({portion, portion.begin});
  } else {
    progress_ = {portion.number, 0};
  }
  used_.push_back(portion);
  // Batch by batch: what the loader takes for one may be larger.
  for (std::uint64_t at = portion.begin; at < portion.end; at += batch_)
    portions_->add({portion.epoch, {at, std::min<std::uint64_t>(at + batch_, portion.end)}});
  return kind;
}

LeasedSource::More LeasedSource::more(const std::function<bool()>& idle,
                                      const std::function<bool()>& should_stop) {
  const std::size_t open = batches_open();
  // What is there by now; never waiting for it while there is something to do.
  if (open > 0 && across_ && open <= ahead_) take(0);
  if (open > 0) return More::yes;
  bool idled = false;
  while (open_.empty()) {
    const bool stop = any(should_stop && should_stop());
    if (stop) return More::stopped;
    // Not waiting yet: if a portion is in stock, what is gathered can go on growing.
    const auto kind = take(idled ? kPauseMs : 0);
    if (!kind) return More::gone;
    if (kind == Leases::Answer::Kind::finished) return More::finished;
    if (kind == Leases::Answer::Kind::portion && open_.empty()) return More::none;
    if (kind == Leases::Answer::Kind::portion) break;
    if (!idled && idle && !idle()) return More::gone;
    idled = true;
  }
  return idled ? More::late : More::yes;
}

const data::Batch* LeasedSource::next() {
  Open& open = open_.front();
  const std::uint64_t end = std::min<std::uint64_t>(open.at + batch_, open.portion.end);
  part_ = {open.portion.epoch, {open.at, end}};
  progress_ = {open.portion.number, end - open.portion.begin};
  ends_ = end == open.portion.end;
  open.at = end;
  if (ends_) open_.pop_front();
  return loader_.next();
}

void LeasedSource::acknowledged(const PortionProgress& progress) {
  std::vector<std::uint64_t> finished;
  while (!used_.empty()) {
    const server::Portion& first = used_.front();
    const bool whole =
        progress.portion == first.number
            ? progress.samples == first.end - first.begin
            : progress.portion != 0 &&
                  std::any_of(used_.begin() + 1, used_.end(),
                              [&](const auto& later) { return later.number == progress.portion; });
    if (!whole) break;
    finished.push_back(first.number);
    used_.pop_front();
  }
  if (leases_) leases_->finished(finished);
}

void LeasedSource::report(const server::ReplicaReport& report) {
  if (leases_) leases_->report(report);
}

data::Position LeasedSource::position() const {
  data::Position position;
  position.epoch = part_.epoch;
  if (part_.positions.end > 0) position.consumed.push_back({0, part_.positions.end});
  return position;
}

}  // namespace convoy::train
