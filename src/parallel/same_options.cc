#include "parallel/same_options.h"

#include <array>
#include <cstdio>
#include <sstream>

#include "convoy/base/error.h"

namespace convoy::parallel {
namespace {

using NamedValues = std::vector<std::pair<std::string, std::string>>;

const char* name_of_averaging(Averaging averaging) {
  switch (averaging) {
    case Averaging::samples:
      return "samples";
    case Averaging::ranks:
      return "ranks";
    case Averaging::sum:
      return "sum";
  }
  return "unknown";
}

NamedValues values_of(const ReducerOptions& options) {
  std::string order;
  for (const std::string& name : options.order) order += (order.empty() ? "" : ", ") + name;
  std::array<char, 32> samples{};
  std::snprintf(samples.data(), samples.size(), "%.17g", options.nominal_samples);
  return {{"first_bucket_bytes", std::to_string(options.first_bucket_bytes)},
          {"bucket_bytes", std::to_string(options.bucket_bytes)},
          {"averaging", name_of_averaging(options.averaging)},
          {"allow_unused", options.allow_unused ? "true" : "false"},
          {"nominal_samples", samples.data()},
          {"wire_type", options.wire_type ? c10::toString(*options.wire_type) : "none"},
          {"reproducible", options.reproducible ? "true" : "false"},
          {"allreduce", options.allreduce},
          {"order", order}};
}

// Neither names nor values have these in them.
constexpr char kEndOfName = '\x1f', kEndOfValue = '\x1e';

std::string quoted_if_short(const std::string& value) {
  constexpr std::size_t kShort = 60;
  return value.size() > kShort ? "'" + value.substr(0, kShort) + "...'" : "'" + value + "'";
}

std::string difference_of_options(const std::string& mine, const std::string& roots) {
  std::istringstream a(mine), b(roots);
  for (std::string left, right; std::getline(a, left, kEndOfValue);) {
    std::getline(b, right, kEndOfValue);
    if (left == right) continue;
    const std::size_t end = left.find(kEndOfName);
    return "has " + left.substr(0, end) + " = " + quoted_if_short(left.substr(end + 1)) +
           " where rank 0 has " + quoted_if_short(right.substr(right.find(kEndOfName) + 1));
  }
  return "";
}

}  // namespace

void check_same_options(const comm::Communicator& communicator, const ReducerOptions& options,
                        const NamedValues& more) {
  if (communicator.size() == 1) return;
  NamedValues values = values_of(options);
  values.insert(values.begin(), more.begin(), more.end());
  std::string mine;
  for (const auto& [name, value] : values) mine += name + kEndOfName + value + kEndOfValue;
  const std::string roots = communicator.broadcast_text(mine, 0);
  std::string message;
  const auto differences = communicator.gather_text(difference_of_options(mine, roots));
  for (std::size_t rank = 0; rank < differences.size(); ++rank) {
    if (differences[rank].empty()) continue;
    message +=
        (message.empty() ? "" : "; ") + ("rank " + std::to_string(rank)) + " " + differences[rank];
  }
  if (!message.empty())
    throw UsageError("the ranks give different options for the reduction of gradients: " + message +
                     "; give the same on every rank");
}

}  // namespace convoy::parallel
