// A client whose channels go through gRPC.
#include "convoy/server/client.h"

#include <utility>

#include "convoy/server/batch.h"
#include "server/client/core.h"
#include "server/transport/grpc_connector.h"

namespace convoy::server {
namespace {

client::Connectors connectors(const ClientOptions& options) {
  std::optional<transport::TlsFiles> tls;
  if (options.tls) {
    tls.emplace();
    tls->authority = options.tls->authority;
    tls->certificate = options.tls->certificate;
    tls->key = options.tls->key;
  }
  return [tls](const std::string& address) { return transport::grpc_connector(address, tls); };
}

}  // namespace

struct Client::Impl {
  explicit Impl(ClientOptions options) : core(options, connectors(options)) {}
  client::Core core;
};

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

const JobPlan& Client::plan() const { return impl_->core.plan(); }

bool Client::describe(const JobDescription& description) {
  return impl_->core.describe(description);
}

void Client::initialize(std::span<const ReadView> values,
                        const std::vector<std::vector<std::span<const float>>>& slots,
                        std::uint64_t steps) {
  impl_->core.initialize(values, slots, steps);
}

void Client::join(const JobDescription& description,
                  std::optional<std::span<const std::uint32_t>> vectors) {
  impl_->core.join(description, vectors);
}

void Client::catch_up() { impl_->core.catch_up(); }
std::uint64_t Client::id() const { return impl_->core.id(); }
bool Client::lost() const { return impl_->core.lost(); }
std::string Client::ended() const { return impl_->core.ended(); }
void Client::fetch(std::span<const WriteView> to) { impl_->core.fetch(to); }

PushResult Client::push(std::span<const ReadView> gradients, std::uint64_t samples,
                        std::pair<std::uint64_t, std::uint64_t> progress, std::uint64_t fetched,
                        std::span<const std::uint64_t> ids) {
  return impl_->core.push(gradients, samples, progress, fetched, ids);
}

std::uint64_t Client::fetches() const { return impl_->core.fetches(); }

Lease Client::lease(std::span<const std::uint64_t> finished) { return impl_->core.lease(finished); }

void Client::report(const ReplicaReport& report) { impl_->core.report(report); }
void Client::leave() { impl_->core.leave(); }
JobProgress Client::progress() { return impl_->core.progress(); }
Cut Client::cut() { return impl_->core.cut(); }

void Client::fetch_cut(const Cut& cut, std::span<const WriteView> to) {
  impl_->core.fetch_cut(cut, 0, to);
}

void Client::fetch_cut_slot(const Cut& cut, std::uint32_t slot, std::span<const WriteView> to) {
  impl_->core.fetch_cut(cut, slot + 1, to);
}

void Client::drop_cut(const Cut& cut) { impl_->core.drop_cut(cut); }

void Client::set_rates(std::span<const std::pair<std::uint32_t, double>> rates) {
  impl_->core.set_rates(rates);
}

void Client::end_job(const std::string& why) { impl_->core.end_job(why); }
std::string Client::status() { return impl_->core.status(); }
ClientTraffic Client::traffic() const { return impl_->core.traffic(); }
ShardTotals Client::totals() { return impl_->core.totals(); }

BatchClient::BatchClient(Client& client) : core_(client.impl_->core) {}

}  // namespace convoy::server
