// What Downpour and Sandblaster are around: the strategy with which the ranks of a replica work
// together.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/server/job.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/parameter_service.h"
#include "convoy/train/server_job.h"
#include "convoy/train/strategy.h"
#include "train/rank_work.h"
#include "train/strategies/downpour/optimizer.h"
#include "train/strategies/downpour/vectors.h"

namespace convoy::train {

// What a strategy around another has the network for, and so many copies of the parameters beside
// it (NetworkSource::copies_beside()).
struct InnerUse {
  bool trains = true;
  int copies = -1;
};

// The network of the outer recipe, for the inner strategy.
class InnerSource final : public NetworkSource {
 public:
  InnerSource(const NetworkSource& outer, const Recipe& recipe, InnerUse use)
      : outer_(outer), recipe_(recipe), use_(use) {}
  std::shared_ptr<model::Network> whole() const override { return outer_.whole(); }
  std::optional<model::Blueprint> blueprint() const override { return outer_.blueprint(); }
  std::uint64_t seed() const override { return outer_.seed(); }
  const Recipe& recipe() const override { return recipe_; }
  const Task& task() const override { return outer_.task(); }
  const Compute& compute() const override { return outer_.compute(); }
  bool trains() const override { return use_.trains; }
  bool goes_on() const override { return outer_.goes_on(); }
  const Recipe& job() const override { return outer_.job(); }
  int copies_beside() const override { return use_.copies; }

 private:
  const NetworkSource& outer_;
  const Recipe& recipe_;
  const InnerUse use_;
};

// What the trainer does for the inner strategy; whoever is around it does some of that otherwise.
class InnerContext : public TrainerContext {
 public:
  InnerContext(TrainerContext& outer, const Recipe& recipe) : outer_(outer), recipe_(recipe) {}
  const Recipe& recipe() const override { return recipe_; }
  const comm::World& world() const override { return outer_.world(); }
  const Task& task() const override { return outer_.task(); }
  const Compute& compute() const override { return outer_.compute(); }
  NamedOptimizer make_optimizer(std::vector<parallel::NamedTensor> parameters) const override {
    return outer_.make_optimizer(std::move(parameters));
  }
  data::SampleSource& samples() override { return outer_.samples(); }
  const data::Dataset& training_data() const override { return outer_.training_data(); }
  const Schedule& schedule() const override { return outer_.schedule(); }
  const Moment& moment() const override { return outer_.moment(); }
  Timeline* timeline() override { return outer_.timeline(); }
  std::uint32_t requests() override { return outer_.requests(); }
  bool updated(const StepReport& report) override { return outer_.updated(report); }
  bool ends_at_faults() const override { return outer_.ends_at_faults(); }
  void stopped() override { outer_.stopped(); }

 protected:
  TrainerContext& outer() { return outer_; }

 private:
  TrainerContext& outer_;
  const Recipe& recipe_;
};

// As it is: for networks that were trained, and nothing to train them with.
class Around : public Strategy {
 public:
  Arrangement arrange(const comm::World& world, const Recipe& recipe) override;
  Options settle(const NetworkSource& source, const Recipe* before) override;
  void build(const NetworkSource& source) override;
  torch::nn::Module& module() override { return inner_->module(); }
  std::int64_t parameters() override { return inner_->parameters(); }
  std::size_t least_share(TrainerContext& context) override;
  // Throws UsageError: there is no parameter server.
  void prepare(TrainerContext& context, const State* saved) override;
  void run() override {}
  Communicated communicated() override { return inner_->communicated(); }
  State state() override { return inner_->state(); }
  void with_whole_model(const std::function<void()>& use) override {
    inner_->with_whole_model(use);
  }
  std::optional<Slice> wanted(const Slice& whole) override { return inner_->wanted(whole); }
  void load(const State& saved, const std::string& from) override { inner_->load(saved, from); }
  TensorList forward(const TensorList& inputs) override { return inner_->forward(inputs); }
  bool infer(const Task& task, const Compute& compute, const data::Batch& batch,
             const UseOutputs& use) override {
    return inner_->infer(task, compute, batch, use);
  }

 protected:
  Strategy& inner() { return *inner_; }
  const Recipe& inner_recipe() const { return recipe_; }
  // A replica's, unless the outer source says that nothing is trained.
  virtual InnerUse use_of(const NetworkSource& outer) const;
  // Throws UsageError for a job that trains unless its ranks are one replica.
  void check_world(const comm::World& world) const;
  // What all ranks together have, when the inner strategy is prepared.
  void describe(TrainerContext& context, const std::vector<parallel::NamedTensor>& parameters);
  const Vectors& vectors() const { return *vectors_; }
  const server::JobDescription& description() const { return description_; }

 private:
  std::unique_ptr<Strategy> inner_;
  Recipe recipe_;
  std::optional<Vectors> vectors_;
  server::JobDescription description_;
};

// The rank's own connection: the first rank's before the others'. `Service` is a ParameterService,
// or a BatchService. Collective.
template <typename Service>
std::unique_ptr<Service> connect_rank(
    const comm::Communicator& ranks,
    const std::function<std::unique_ptr<Service>(const ServiceMember&)>& connect,
    const std::function<void(Service&)>& begin) {
  std::unique_ptr<Service> service;
  const auto members = static_cast<std::uint32_t>(ranks.size());
  // However long others take to begin, waiting for them is no failure.
  const std::string first = on_rank_0(ranks, [&] {
    service = connect({0, members, 0});
    begin(*service);
    return std::to_string(service->id());
  });
  if (ranks.size() == 1) return service;
  on_every_rank(ranks, [&] {
    if (ranks.rank() == 0) return;
    service = connect({static_cast<std::uint32_t>(ranks.rank()), members, std::stoull(first)});
    begin(*service);
  });
  return service;
}

}  // namespace convoy::train
