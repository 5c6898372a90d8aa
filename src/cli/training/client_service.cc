#include "cli/training/client_service.h"

#include <utility>

#include "cli/training/push_records.h"

namespace convoy::cli {
namespace {

class ClientService final : public train::ParameterService {
 public:
  explicit ClientService(std::unique_ptr<server::Client> client) : client_(std::move(client)) {}

  const server::JobPlan& plan() const override { return client_->plan(); }
  bool describe(const server::JobDescription& description) override {
    return client_->describe(description);
  }
  void initialize(std::span<const server::ReadView> values,
                  const std::vector<std::vector<std::span<const float>>>& slots,
                  std::uint64_t steps) override {
    client_->initialize(values, slots, steps);
  }
  void join(const server::JobDescription& description,
            std::optional<std::span<const std::uint32_t>> vectors) override {
    client_->join(description, vectors);
  }
  void catch_up() override { client_->catch_up(); }
  std::uint64_t id() const override { return client_->id(); }
  bool lost() const override { return client_->lost(); }
  std::string ended() const override { return client_->ended(); }
  void fetch(std::span<const server::WriteView> to) override { client_->fetch(to); }
  server::PushResult push(std::span<const server::ReadView> gradients, std::uint64_t samples,
                          std::pair<std::uint64_t, std::uint64_t> progress,
                          std::uint64_t fetched) override {
    if (!records_.on()) return client_->push(gradients, samples, progress, fetched);
    const std::uint64_t id = records_.begin(client_->id());
    const server::PushResult result =
        client_->push(gradients, samples, progress, fetched, std::span(&id, 1));
    records_.end(id, result.kind == server::PushResult::Kind::applied);
    return result;
  }
  std::uint64_t fetches() const override { return client_->fetches(); }
  server::Lease lease(std::span<const std::uint64_t> finished) override {
    return client_->lease(finished);
  }
  void report(const server::ReplicaReport& report) override { client_->report(report); }
  void leave() override { client_->leave(); }
  server::JobProgress progress() override { return client_->progress(); }
  server::Cut cut() override { return client_->cut(); }
  void fetch_cut(const server::Cut& cut, std::span<const server::WriteView> to) override {
    client_->fetch_cut(cut, to);
  }
  void fetch_cut_slot(const server::Cut& cut, std::uint32_t slot,
                      std::span<const server::WriteView> to) override {
    client_->fetch_cut_slot(cut, slot, to);
  }
  void drop_cut(const server::Cut& cut) override { client_->drop_cut(cut); }
  void set_rates(std::span<const std::pair<std::uint32_t, double>> rates) override {
    client_->set_rates(rates);
  }
  void end_job(const std::string& why) override {
    if (records_.on()) records_.write_status(*client_);
    client_->end_job(why);
  }
  server::ClientTraffic traffic() const override { return client_->traffic(); }
  server::ShardTotals totals() override { return client_->totals(); }

 private:
  std::unique_ptr<server::Client> client_;
  PushRecords records_;
};

class ClientBatchService final : public train::BatchService {
 public:
  explicit ClientBatchService(std::unique_ptr<server::Client> client)
      : client_(std::move(client)), batch_(*client_) {}

  const server::JobPlan& plan() const override { return client_->plan(); }
  bool describe(const server::JobDescription& description) override {
    return client_->describe(description);
  }
  void open(server::Element element) override { batch_.open(element); }
  void put(const optim::VectorName& name,
           std::span<const server::BatchView<const float>> values) override {
    batch_.put(name, values);
  }
  void put(const optim::VectorName& name,
           std::span<const server::BatchView<const double>> values) override {
    batch_.put(name, values);
  }
  void begin_from(const optim::BatchState& state) override { batch_.begin_from(state); }
  bool initialized(const optim::VectorName& weights) override {
    return batch_.initialized(weights);
  }
  void join(const server::JobDescription& description,
            std::optional<std::span<const std::uint32_t>> vectors) override {
    client_->join(description, vectors);
  }
  std::uint64_t id() const override { return client_->id(); }
  bool lost() const override { return client_->lost(); }
  std::string ended() const override { return client_->ended(); }
  void leave() override { client_->leave(); }
  server::PortionLease lease(const server::EvaluationId& evaluation,
                             std::span<const server::PortionGroup> held,
                             std::span<const server::FinishedPortions> finished,
                             bool at_once) override {
    return batch_.lease(evaluation, held, finished, at_once);
  }
  void fetch(const optim::VectorName& name, std::span<const server::BatchView<float>> to) override {
    batch_.fetch(name, to);
  }
  void fetch(const optim::VectorName& name,
             std::span<const server::BatchView<double>> to) override {
    batch_.fetch(name, to);
  }
  server::GroupAnswer add_group(const server::EvaluationId& id, const server::PortionGroup& group,
                                std::span<const server::BatchView<const float>> values) override {
    return batch_.add_group(id, group, values);
  }
  server::GroupAnswer add_group(const server::EvaluationId& id, const server::PortionGroup& group,
                                std::span<const server::BatchView<const double>> values) override {
    return batch_.add_group(id, group, values);
  }
  server::BatchProgress watch(std::uint64_t after, bool hold) override {
    return batch_.watch(after, hold);
  }
  server::ShardTotals totals() override { return client_->totals(); }
  void let_go() override { batch_.let_go(); }
  void end_job(const std::string& why) override { client_->end_job(why); }
  server::ClientTraffic traffic() const override { return client_->traffic(); }

 private:
  std::unique_ptr<server::Client> client_;
  server::BatchClient batch_;
};

}  // namespace

std::unique_ptr<train::BatchService> batch_service_of(std::unique_ptr<server::Client> client) {
  return std::make_unique<ClientBatchService>(std::move(client));
}

std::unique_ptr<train::ParameterService> service_of(std::unique_ptr<server::Client> client) {
  return std::make_unique<ClientService>(std::move(client));
}

}  // namespace convoy::cli
