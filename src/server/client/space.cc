// What batch.h declares, on what is behind a client.
#include "convoy/server/batch.h"
#include "server/client/core.h"
#include "server/state/batch_commands.h"

namespace convoy::server {

BatchClient::BatchClient(client::Core& core) : core_(core) {}

void BatchClient::open(Element element) { core_.open_space(element); }

void BatchClient::put(const optim::VectorName& name,
                      std::span<const BatchView<const float>> values) {
  core_.put_vector<float>(name, values);
}

void BatchClient::put(const optim::VectorName& name,
                      std::span<const BatchView<const double>> values) {
  core_.put_vector<double>(name, values);
}

bool BatchClient::initialized(const optim::VectorName& weights) {
  return core_.batch_initialized(weights);
}

void BatchClient::fetch(const optim::VectorName& name, std::span<const BatchView<float>> to) {
  core_.fetch_vector<float>(name, to);
}

void BatchClient::fetch(const optim::VectorName& name, std::span<const BatchView<double>> to) {
  core_.fetch_vector<double>(name, to);
}

GroupAnswer BatchClient::add_group(const EvaluationId& id, const PortionGroup& group,
                                   std::span<const BatchView<const float>> values) {
  return core_.add_group<float>(id, group, values);
}

GroupAnswer BatchClient::add_group(const EvaluationId& id, const PortionGroup& group,
                                   std::span<const BatchView<const double>> values) {
  return core_.add_group<double>(id, group, values);
}

void BatchClient::combine(std::uint64_t ordinal, const optim::VectorName& into,
                          std::span<const optim::Term> terms) {
  core_.batch_command("combine", combine_command(ordinal, into, terms));
}

void BatchClient::multiply(std::uint64_t ordinal, const optim::VectorName& into,
                           const optim::VectorName& a, const optim::VectorName& b) {
  core_.batch_command("multiply", multiply_command(ordinal, into, a, b));
}

void BatchClient::keep(std::uint64_t ordinal, std::span<const optim::VectorName> names) {
  core_.batch_command("keep", keep_command(ordinal, names));
}

void BatchClient::evaluate(std::uint64_t ordinal, const EvaluationId& id, std::uint32_t portions) {
  if (portions == 0) throw UsageError("an evaluation has at least one portion");
  core_.batch_command("evaluate", evaluate_command(ordinal, id, portions));
}

std::vector<double> BatchClient::dots(std::span<const optim::VectorPair> pairs) {
  return core_.dots(pairs);
}

std::vector<PortionRange> BatchClient::seal(const EvaluationId& id, double scale,
                                            std::span<const optim::Term> also) {
  return core_.seal(id, scale, also);
}

std::vector<PortionRange> BatchClient::missing(const EvaluationId& id) { return core_.missing(id); }

std::vector<double> ShardSpace::dots(std::span<const optim::VectorPair> pairs) {
  return shards_.dots(pairs);
}

// A number is used once a command was given, whatever became of it: where it failed some shards may
// have done it, and would take the next command under this number for the same one.
void ShardSpace::combine(const optim::VectorName& into, std::span<const optim::Term> terms) {
  shards_.combine(++last_, into, terms);
}

void ShardSpace::multiply(const optim::VectorName& into, const optim::VectorName& a,
                          const optim::VectorName& b) {
  shards_.multiply(++last_, into, a, b);
}

void ShardSpace::keep(std::span<const optim::VectorName> names) { shards_.keep(++last_, names); }

void ShardSpace::evaluate(const EvaluationId& id, std::uint32_t portions) {
  shards_.evaluate(++last_, id, portions);
}

}  // namespace convoy::server
