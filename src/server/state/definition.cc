#include "server/state/definition.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/server/vectors.h"

namespace convoy::server {
namespace {

// Rules by number; part of the format. 0 is a statistic.
enum class RuleNumber : std::uint8_t { none, sgd, adam, adamw, adagrad, sgd_velocity };

template <typename T>
void write_adam(Writer& writer, RuleNumber number, const T& rule) {
  writer.u8(static_cast<std::uint8_t>(number));
  for (const double field : {rule.lr, rule.beta1, rule.beta2, rule.eps, rule.weight_decay}) {
    writer.f64(field);
  }
  writer.boolean(rule.amsgrad);
}

struct RuleWriter {
  Writer& writer;
  void operator()(const optim::Sgd& rule) const {
    writer.u8(static_cast<std::uint8_t>(RuleNumber::sgd));
    for (const double field : {rule.lr, rule.momentum, rule.dampening, rule.weight_decay}) {
      writer.f64(field);
    }
    writer.boolean(rule.nesterov);
  }
  void operator()(const optim::Adam& rule) const { write_adam(writer, RuleNumber::adam, rule); }
  void operator()(const optim::AdamW& rule) const { write_adam(writer, RuleNumber::adamw, rule); }
  void operator()(const optim::Adagrad& rule) const {
    writer.u8(static_cast<std::uint8_t>(RuleNumber::adagrad));
    for (const double field :
         {rule.lr, rule.lr_decay, rule.weight_decay, rule.initial_accumulator_value, rule.eps}) {
      writer.f64(field);
    }
  }
  void operator()(const optim::SgdVelocity& rule) const {
    writer.u8(static_cast<std::uint8_t>(RuleNumber::sgd_velocity));
    for (const double field : {rule.lr, rule.momentum, rule.weight_decay}) writer.f64(field);
  }
  // Not of vectors that check() accepts.
  template <typename Layerwise>
  void operator()(const Layerwise& rule) const {
    throw UsageError(std::string(optim::name(rule)) + " is no rule of a parameter server");
  }
};

template <typename T>
T read_adam(Reader& reader) {
  T rule;
  for (double* field : {&rule.lr, &rule.beta1, &rule.beta2, &rule.eps, &rule.weight_decay}) {
    *field = reader.f64();
  }
  rule.amsgrad = reader.boolean();
  return rule;
}

}  // namespace

std::uint64_t memory_of(const Definition& definition) {
  std::uint64_t bytes = 0;
  for (const SliceDefinition& slice : definition.slices) {
    const std::uint64_t arrays = 1 + (slice.rule ? optim::slots(*slice.rule).size() : 0);
    bytes += slice.size * arrays * sizeof(float);
  }
  return bytes;
}

void check(const Definition& definition) {
  // As vectors: several slices may be of one, which then has to be the same one.
  std::vector<const SliceDefinition*> slices;
  for (const SliceDefinition& slice : definition.slices) {
    const VectorSpec vector{slice.name, slice.elements, slice.rule};
    check(std::span(&vector, 1));
    if (slice.begin > slice.elements || slice.size > slice.elements - slice.begin) {
      throw UsageError("a slice of '" + slice.name + "' has " + std::to_string(slice.size) +
                       " elements from " + std::to_string(slice.begin) + "; the vector has " +
                       std::to_string(slice.elements));
    }
    slices.push_back(&slice);
  }
  std::sort(slices.begin(), slices.end(), [](const auto* a, const auto* b) {
    return std::tie(a->name, a->begin, a->size) < std::tie(b->name, b->begin, b->size);
  });
  for (std::size_t i = 1; i < slices.size(); ++i) {
    const SliceDefinition& before = *slices[i - 1];
    const SliceDefinition& slice = *slices[i];
    if (before.name != slice.name) continue;
    if (before.elements != slice.elements || before.rule != slice.rule) {
      throw UsageError("two slices of '" + slice.name +
                       "' differ in the vector's size or rule; they have to be of one vector");
    }
    if (before.begin + before.size > slice.begin || (before.begin == slice.begin)) {
      throw UsageError("two slices of '" + slice.name + "' share element " +
                       std::to_string(slice.begin) + "; each element belongs to one");
    }
  }
}

void write(Writer& writer, const std::optional<optim::Rule>& rule) {
  if (!rule) return writer.u8(static_cast<std::uint8_t>(RuleNumber::none));
  std::visit(RuleWriter{writer}, *rule);
}

std::optional<optim::Rule> read_rule(Reader& reader) {
  const auto number = static_cast<RuleNumber>(reader.u8());
  switch (number) {
    case RuleNumber::none:
      return std::nullopt;
    case RuleNumber::sgd: {
      optim::Sgd rule;
      for (double* field : {&rule.lr, &rule.momentum, &rule.dampening, &rule.weight_decay}) {
        *field = reader.f64();
      }
      rule.nesterov = reader.boolean();
      return rule;
    }
    case RuleNumber::adam:
      return read_adam<optim::Adam>(reader);
    case RuleNumber::adamw:
      return read_adam<optim::AdamW>(reader);
    case RuleNumber::adagrad: {
      optim::Adagrad rule;
      for (double* field : {&rule.lr, &rule.lr_decay, &rule.weight_decay,
                            &rule.initial_accumulator_value, &rule.eps}) {
        *field = reader.f64();
      }
      return rule;
    }
    case RuleNumber::sgd_velocity: {
      optim::SgdVelocity rule;
      for (double* field : {&rule.lr, &rule.momentum, &rule.weight_decay}) *field = reader.f64();
      return rule;
    }
  }
  reader.refuse("no rule has the number " + std::to_string(static_cast<unsigned>(number)));
}

void write(Writer& writer, const Definition& definition) {
  writer.u64(definition.staleness_bound);
  writer.boolean(definition.scale_by_staleness);
  writer.u32(static_cast<std::uint32_t>(definition.slices.size()));
  for (const SliceDefinition& slice : definition.slices) {
    writer.text(slice.name);
    writer.u64(slice.elements);
    writer.u64(slice.begin);
    writer.u64(slice.size);
    write(writer, slice.rule);
  }
}

Definition read_definition(Reader& reader) {
  Definition definition;
  definition.staleness_bound = reader.u64();
  definition.scale_by_staleness = reader.boolean();
  const std::uint32_t count = reader.count(4 + 1 + 3 * 8 + 1);
  definition.slices.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    SliceDefinition slice;
    slice.name = reader.text(kMaxVectorName);
    slice.elements = reader.u64();
    slice.begin = reader.u64();
    slice.size = reader.u64();
    slice.rule = read_rule(reader);
    definition.slices.push_back(std::move(slice));
  }
  check(definition);
  return definition;
}

}  // namespace convoy::server
