// This is what Downpour's processes need of a parameter server. Torch-free.
//
// In a job it is server::Client (convoy/server/client.h, which says more of each call); tests have
// one of their own in this process.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convoy/server/client.h"

namespace convoy::train {

// Threads: fetch(), push() and everything else may each be called by a thread of its own; lost(),
// ended() and fetches() by any.
class ParameterService {
 public:
  virtual ~ParameterService() = default;

  virtual const server::JobPlan& plan() const = 0;

  virtual bool describe(const server::JobDescription& description) = 0;
  virtual void initialize(std::span<const server::ReadView> values,
                          const std::vector<std::vector<std::span<const float>>>& slots,
                          std::uint64_t steps) = 0;
  virtual void join(const server::JobDescription& description,
                    std::optional<std::span<const std::uint32_t>> vectors) = 0;
  virtual void catch_up() = 0;
  virtual std::uint64_t id() const = 0;
  virtual bool lost() const = 0;
  virtual std::string ended() const = 0;

  virtual void fetch(std::span<const server::WriteView> to) = 0;
  virtual server::PushResult push(std::span<const server::ReadView> gradients,
                                  std::uint64_t samples,
                                  std::pair<std::uint64_t, std::uint64_t> progress,
                                  std::uint64_t fetched) = 0;
  virtual std::uint64_t fetches() const = 0;
  virtual server::Lease lease(std::span<const std::uint64_t> finished) = 0;
  virtual void report(const server::ReplicaReport& report) = 0;
  virtual void leave() = 0;

  virtual server::JobProgress progress() = 0;
  virtual server::Cut cut() = 0;
  virtual void fetch_cut(const server::Cut& cut, std::span<const server::WriteView> to) = 0;
  virtual void fetch_cut_slot(const server::Cut& cut, std::uint32_t slot,
                              std::span<const server::WriteView> to) = 0;
  virtual void drop_cut(const server::Cut& cut) = 0;
  virtual void set_rates(std::span<const std::pair<std::uint32_t, double>> rates) = 0;
  virtual void end_job(const std::string& why) = 0;

  virtual server::ClientTraffic traffic() const = 0;
  virtual server::ShardTotals totals() = 0;
};

// Says which process of a replica (or of the evaluator) a service is for.
struct ServiceMember {
  std::uint32_t member = 0;
  std::uint32_t members = 1;
  std::uint64_t group = 0;  // id() of the first one's, which has joined; 0 for that one itself
};
// Connects. Called again when a replica was taken for dead: it joins as another one.
using ParameterServiceFactory =
    std::function<std::unique_ptr<ParameterService>(const ServiceMember& member)>;

}  // namespace convoy::train
