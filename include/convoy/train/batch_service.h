// This is what Sandblaster's processes need of a parameter server. Torch-free.
//
// In a job it is a server::Client (convoy/server/client.h) with its server::BatchClient
// (convoy/server/batch.h), which say more of each call; tests have one of their own in this
// process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/server/batch.h"
#include "convoy/server/job.h"
#include "convoy/train/parameter_service.h"

namespace convoy::train {

// Threads: one at a time; lost() and ended() by any.
class BatchService {
 public:
  virtual ~BatchService() = default;

  virtual const server::JobPlan& plan() const = 0;

  // --- to begin with ---
  virtual bool describe(const server::JobDescription& description) = 0;
  virtual void open(server::Element element) = 0;
  virtual void put(const optim::VectorName& name,
                   std::span<const server::BatchView<const float>> values) = 0;
  virtual void put(const optim::VectorName& name,
                   std::span<const server::BatchView<const double>> values) = 0;
  virtual void begin_from(const optim::BatchState& state) = 0;
  virtual bool initialized(const optim::VectorName& weights = {}) = 0;

  // --- a member's ---
  virtual void join(const server::JobDescription& description,
                    std::optional<std::span<const std::uint32_t>> vectors) = 0;
  virtual std::uint64_t id() const = 0;
  virtual bool lost() const = 0;
  virtual std::string ended() const = 0;
  virtual void leave() = 0;

  // --- a replica's work: what a server::PortionWorker asks for ---
  virtual server::PortionLease lease(const server::EvaluationId& evaluation,
                                     std::span<const server::PortionGroup> held,
                                     std::span<const server::FinishedPortions> finished,
                                     bool at_once) = 0;
  virtual void fetch(const optim::VectorName& name,
                     std::span<const server::BatchView<float>> to) = 0;
  virtual void fetch(const optim::VectorName& name,
                     std::span<const server::BatchView<double>> to) = 0;
  virtual server::GroupAnswer add_group(const server::EvaluationId& id,
                                        const server::PortionGroup& group,
                                        std::span<const server::BatchView<const float>> values) = 0;
  virtual server::GroupAnswer add_group(
      const server::EvaluationId& id, const server::PortionGroup& group,
      std::span<const server::BatchView<const double>> values) = 0;

  // --- an evaluator's ---
  virtual server::BatchProgress watch(std::uint64_t after, bool hold) = 0;
  virtual server::ShardTotals totals() = 0;
  virtual void let_go() = 0;
  virtual void end_job(const std::string& why) = 0;

  virtual server::ClientTraffic traffic() const = 0;
};

// Connects. Called again when a replica was taken for dead: it joins as another one.
using BatchServiceFactory =
    std::function<std::unique_ptr<BatchService>(const ServiceMember& member)>;

}  // namespace convoy::train
