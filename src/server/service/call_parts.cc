// What calls have in common with the coordinator's records.
#include <algorithm>
#include <limits>

#include "server/service/coordinator_calls.h"

namespace convoy::server::calls {
namespace {

constexpr std::size_t kMaxPartText = 4096;  // bytes

void write(Writer& to, const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges) {
  to.u32(static_cast<std::uint32_t>(ranges.size()));
  for (const auto& [begin, end] : ranges) {
    to.u64(begin);
    to.u64(end);
  }
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> read_ranges(Reader& from) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges(from.count(16));
  std::uint64_t before = 0;
  for (auto& [begin, end] : ranges) {
    begin = from.u64();
    end = from.u64();
    if (begin >= end || begin < before) from.refuse("ranges out of order");
    before = end;
  }
  return ranges;
}

}  // namespace

void write(Writer& writer, const Portion& portion) {
  writer.u64(portion.number);
  writer.u64(portion.epoch);
  writer.u64(portion.begin);
  writer.u64(portion.end);
}

Portion read_portion(Reader& reader) {
  Portion portion;
  portion.number = reader.u64();
  portion.epoch = reader.u64();
  portion.begin = reader.u64();
  portion.end = reader.u64();
  if (portion.number > std::numeric_limits<std::uint32_t>::max()) {
    reader.refuse("the number of a portion, " + std::to_string(portion.number) +
                  ", doesn't fit into 32 bits");
  }
  if (portion.begin > portion.end) reader.refuse("a portion that ends before it begins");
  return portion;
}

void write(Writer& writer, const ReplicaReport& report) {
  writer.u64(report.steps);
  writer.u64(report.samples);
  writer.f64(report.loss_sum);
  writer.f64(report.weight);
  writer.f64(report.compute_s);
  writer.f64(report.fetch_wait_s);
  writer.f64(report.push_wait_s);
  writer.f64(report.data_wait_s);
  writer.u64(report.skipped);
}

ReplicaReport read_report(Reader& reader) {
  ReplicaReport report;
  report.steps = reader.u64();
  report.samples = reader.u64();
  report.loss_sum = reader.f64();
  report.weight = reader.f64();
  report.compute_s = reader.f64();
  report.fetch_wait_s = reader.f64();
  report.push_wait_s = reader.f64();
  report.data_wait_s = reader.f64();
  report.skipped = reader.u64();
  return report;
}

void write(Writer& writer, const JobProgress& progress) {
  writer.text(std::string_view(progress.ended).substr(0, kMaxPartText));
  writer.u64(progress.epoch);
  write(writer, progress.consumed);
  writer.u64(progress.samples);
  writer.u64(progress.twice);
  writer.u64(progress.redone);
  writer.boolean(progress.all_done);
  writer.u32(progress.replicas);
  write(writer, progress.reported);
}

JobProgress read_progress(Reader& reader) {
  JobProgress progress;
  progress.ended = reader.text(kMaxPartText);
  progress.epoch = reader.u64();
  progress.consumed = read_ranges(reader);
  progress.samples = reader.u64();
  progress.twice = reader.u64();
  progress.redone = reader.u64();
  progress.all_done = reader.boolean();
  progress.replicas = reader.u32();
  progress.reported = read_report(reader);
  return progress;
}

Lease lease_of(const LeaseAnswer& answer) {
  Lease lease;
  switch (answer.kind) {
    case LeaseAnswer::Kind::portion:
      lease.kind = Lease::Kind::portion;
      break;
    case LeaseAnswer::Kind::finished:
      lease.kind = Lease::Kind::finished;
      break;
    case LeaseAnswer::Kind::wait:
    case LeaseAnswer::Kind::unknown_client:
      lease.kind = Lease::Kind::wait;
      break;
  }
  lease.portion = answer.portion;
  // More than an hour is nobody's wait.
  lease.wait = std::chrono::milliseconds(std::min<std::uint64_t>(answer.wait_ms, 3600'000));
  lease.why = answer.why;
  return lease;
}

}  // namespace convoy::server::calls
