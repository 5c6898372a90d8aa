// A batch optimizer's vectors: commands that make and free them.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "server/state/shard_state.h"

namespace convoy::server {
namespace {

constexpr std::size_t kNumberedHead = 2 + 1 + 8;  // of a command: version, number, ordinal
constexpr std::size_t kMostVectors = 4096;

// Of everything but the ordinal.
std::uint64_t made_by(std::span<const std::byte> command) {
  Xxh3 checksum;
  checksum.update(command.subspan(0, 3));
  checksum.update(command.subspan(kNumberedHead));
  const std::uint64_t digest = checksum.digest();
  return digest > kSealed ? digest : digest + kSealed + 1;
}

std::string quoted(const optim::VectorName& name) { return "'" + to_string(name) + "'"; }

template <typename T>
BatchElements combining(std::vector<double> factors, std::vector<BatchVectorPtr> from) {
  return [factors = std::move(factors), from = std::move(from)](
             std::size_t slice, std::size_t begin, std::size_t count, BatchArray& array) {
    std::vector<const T*> vectors;
    for (const auto& vector : from) vectors.push_back(vector->slices[slice]->data<T>() + begin);
    optim::combine_slices<T>(factors, vectors, array.data<T>() + begin, count);
  };
}

template <typename T>
void multiply_elements(const BatchArray& a, const BatchArray& b, std::size_t begin,
                       std::size_t count, BatchArray& into) {
  const T* left = a.data<T>() + begin;
  const T* right = b.data<T>() + begin;
  T* to = into.data<T>() + begin;
  for (std::size_t i = 0; i < count; ++i) to[i] = left[i] * right[i];
}

}  // namespace

Reply ShardState::space(Context& context) {
  const Element element = read_element(context.reader);
  context.reader.end();
  if (!data_.definition) return refused(Status::not_initialized, "the shard has no definition yet");
  if (data_.batch.element) {
    if (*data_.batch.element == element) return {};
    return refused(Status::conflict, "the vectors of this job have elements of another type");
  }
  const std::lock_guard lock(mutex_);
  data_.batch.element = element;
  return {};
}

Reply ShardState::numbered(std::uint64_t ordinal, const std::function<Reply()>& carry_out) {
  if (!data_.batch.element) {
    return refused(Status::not_initialized, "the shard has no space of vectors yet");
  }
  if (ordinal != 0 && ordinal <= data_.batch.ordinal) return {};
  Reply reply = carry_out();
  if (reply.status == Status::done && ordinal > data_.batch.ordinal) {
    const std::lock_guard lock(mutex_);
    data_.batch.ordinal = ordinal;
  }
  return reply;
}

Reply ShardState::check_slices(std::span<const BatchSlice> slices) const {
  for (const BatchSlice& each : slices) {
    const auto& definitions = data_.definition->slices;
    if (each.slice >= definitions.size() || !definitions[each.slice].rule) {
      return refused(Status::wrong_shape,
                     "there is no slice " + std::to_string(each.slice) + " that has a gradient");
    }
    const SliceDefinition& slice = definitions[each.slice];
    if (each.values.size != slice.size) {
      return refused(Status::wrong_shape,
                     "slice of '" + slice.name + "': " + std::to_string(each.values.size) +
                         " values; it has " + std::to_string(slice.size) + " elements");
    }
    if (!each.values.zeros && each.values.element != *data_.batch.element) {
      return refused(Status::wrong_shape,
                     "slice of '" + slice.name + "': values of another type than the space's");
    }
  }
  return {};
}

std::uint64_t ShardState::batch_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [name, vector] : data_.batch.vectors) {
    for (const BatchArrayPtr& array : vector->slices) {
      if (array) bytes += array->bytes().size();
    }
  }
  return bytes;
}

std::uint64_t ShardState::space_bytes() const {
  std::uint64_t elements = 0;
  for (const SliceDefinition& slice : data_.definition->slices) {
    if (slice.rule) elements += slice.size;
  }
  return elements * size_of(*data_.batch.element);
}

BatchArrayPtr ShardState::array_of(const BatchValues& values) const {
  auto array = std::make_shared<BatchArray>(*data_.batch.element, values.size, arrays_);
  if (values.zeros) {
    std::fill(array->bytes().begin(), array->bytes().end(), std::byte{0});
  } else if (!values.bytes.empty()) {
    std::memcpy(array->bytes().data(), values.bytes.data(), values.bytes.size());
  }
  return array;
}

bool ShardState::complete(const BatchVector& vector) const {
  const auto& definitions = data_.definition->slices;
  for (std::size_t i = 0; i < definitions.size(); ++i) {
    if (definitions[i].rule && !vector.slices[i]) return false;
  }
  return true;
}

BatchVectorPtr ShardState::find_vector(const optim::VectorName& name) const {
  const auto found = data_.batch.vectors.find(name);
  if (found == data_.batch.vectors.end()) {
    throw UsageError("there is no vector " + quoted(name) + " on this shard");
  }
  if (!complete(*found->second)) {
    throw UsageError("vector " + quoted(name) + ": some of its slices have no values yet");
  }
  return found->second;
}

Reply ShardState::put(Context& context) {
  Reader& reader = context.reader;
  const std::uint64_t ordinal = reader.u64();
  const optim::VectorName name = read_vector_name(reader);
  const std::vector<BatchSlice> slices = read_batch_slices(reader);
  reader.end();
  return numbered(ordinal, [&] {
    Reply reply = check_slices(slices);
    if (reply.status != Status::done) return reply;
    auto& vectors = data_.batch.vectors;
    const auto found = vectors.find(name);
    if (found != vectors.end() && found->second->made != kPut) {
      return refused(Status::conflict, "vector " + quoted(name) + " was made by another command");
    }
    if (found == vectors.end() &&
        (batch_bytes() + space_bytes() > memory_limit_ || vectors.size() >= kMostVectors)) {
      return refused(Status::full, "there is no room for vector " + quoted(name));
    }
    auto vector = found != vectors.end() ? std::make_shared<BatchVector>(*found->second)
                                         : std::make_shared<BatchVector>();
    vector->slices.resize(data_.definition->slices.size());
    for (const BatchSlice& slice : slices) {
      BatchArrayPtr& array = vector->slices[slice.slice];
      if (!array) array = array_of(slice.values);  // else the first one won
    }
    const std::lock_guard lock(mutex_);
    vectors[name] = std::move(vector);
    return Reply{};
  });
}

Reply ShardState::make_vector(const Context& context, const optim::VectorName& into,
                              std::span<const optim::VectorName> from,
                              const MakeElements& elements) {
  const std::uint64_t made = made_by(context.bytes);
  auto& vectors = data_.batch.vectors;
  if (const auto found = vectors.find(into); found != vectors.end()) {
    if (found->second->made == made) return {};
    return refused(Status::conflict,
                   "vector " + quoted(into) + " was made by another command; a name is given once");
  }
  std::vector<BatchVectorPtr> operands;
  try {
    for (const optim::VectorName& name : from) operands.push_back(find_vector(name));
  } catch (const UsageError& error) {
    return refused(Status::no_vector, error.what());
  }
  if (batch_bytes() + space_bytes() > memory_limit_ || vectors.size() >= kMostVectors) {
    return refused(Status::full, "there is no room for vector " + quoted(into));
  }
  struct Stripe {
    std::size_t slice, begin, count;
  };
  std::vector<Stripe> stripes;
  std::vector<std::shared_ptr<BatchArray>> arrays(data_.definition->slices.size());
  for (std::size_t slice = 0; slice < arrays.size(); ++slice) {
    const SliceDefinition& definition = data_.definition->slices[slice];
    if (!definition.rule) continue;
    arrays[slice] = std::make_shared<BatchArray>(*data_.batch.element, definition.size, arrays_);
    for (std::size_t i = 0; i < stripes_of(definition.size); ++i) {
      stripes.push_back({slice, i * StripedVector::kStripe, stripe_size(definition.size, i)});
    }
  }
  const BatchElements compute = elements(std::move(operands));
  in_parts(stripes.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Stripe& stripe = stripes[i];
      compute(stripe.slice, stripe.begin, stripe.count, *arrays[stripe.slice]);
    }
  });
  auto vector = std::make_shared<BatchVector>();
  vector->made = made;
  vector->slices.assign(arrays.begin(), arrays.end());
  const std::lock_guard lock(mutex_);
  vectors.emplace(into, std::move(vector));
  return {};
}

Reply ShardState::combine(Context& context) {
  Reader& reader = context.reader;
  const std::uint64_t ordinal = reader.u64();
  const optim::VectorName into = read_vector_name(reader);
  const std::vector<optim::Term> terms = read_terms(reader);
  reader.end();
  return numbered(ordinal, [&] {
    std::vector<double> factors;
    std::vector<optim::VectorName> names;
    for (const optim::Term& term : terms) {
      factors.push_back(term.factor);
      names.push_back(term.vector);
    }
    return make_vector(context, into, names, [&](auto from) {
      return *data_.batch.element == Element::f64
                 ? combining<double>(std::move(factors), std::move(from))
                 : combining<float>(std::move(factors), std::move(from));
    });
  });
}

Reply ShardState::multiply(Context& context) {
  Reader& reader = context.reader;
  const std::uint64_t ordinal = reader.u64();
  const optim::VectorName into = read_vector_name(reader);
  const std::vector<optim::VectorName> factors = {read_vector_name(reader),
                                                  read_vector_name(reader)};
  reader.end();
  return numbered(ordinal, [&] {
    return make_vector(context, into, factors, [&](auto from) -> BatchElements {
      return [from = std::move(from), element = *data_.batch.element](
                 std::size_t slice, std::size_t begin, std::size_t count, BatchArray& array) {
        const BatchArray& a = *from[0]->slices[slice];
        const BatchArray& b = *from[1]->slices[slice];
        if (element == Element::f64) {
          multiply_elements<double>(a, b, begin, count, array);
        } else {
          multiply_elements<float>(a, b, begin, count, array);
        }
      };
    });
  });
}

Reply ShardState::keep(Context& context) {
  Reader& reader = context.reader;
  const std::uint64_t ordinal = reader.u64();
  std::set<optim::VectorName> names;
  const std::uint32_t count = reader.count(kVectorNameBytes);
  for (std::uint32_t i = 0; i < count; ++i) names.insert(read_vector_name(reader));
  reader.end();
  return numbered(ordinal, [&] {
    for (const optim::VectorName& name : names) {
      if (!data_.batch.vectors.contains(name)) {
        return refused(Status::no_vector, "there is no vector " + quoted(name) + " on this shard");
      }
    }
    std::vector<BatchVectorPtr> freed;  // behind the lock
    const std::lock_guard lock(mutex_);
    std::erase_if(data_.batch.vectors, [&](auto& entry) {
      if (names.contains(entry.first)) return false;
      freed.push_back(std::move(entry.second));
      return true;
    });
    return Reply{};
  });
}

Reply ShardState::evaluate(Context& context) {
  Reader& reader = context.reader;
  const std::uint64_t ordinal = reader.u64();
  const EvaluationId id = read_evaluation_id(reader);
  const std::uint32_t portions = reader.u32();
  if (portions == 0) reader.refuse("an evaluation has at least one portion");
  reader.end();
  return numbered(ordinal, [&] {
    BatchData& batch = data_.batch;
    if (batch.open && batch.open->id == id) {
      if (batch.open->portions == portions) return Reply{};
      return refused(Status::conflict, "evaluation " + to_string(id) + " was begun with " +
                                           std::to_string(batch.open->portions) + " portions");
    }
    const std::lock_guard lock(mutex_);
    batch.newest = batch.open ? std::max(batch.newest, id) : id;
    batch.open = OpenEvaluation{id, portions, context.index};
    return Reply{};
  });
}

Reply ShardState::gradient(Context& context) {
  Reader& reader = context.reader;
  const EvaluationId id = read_evaluation_id(reader);
  const std::vector<BatchSlice> slices = read_batch_slices(reader);
  reader.end();
  return numbered(0, [&] {
    Reply reply = check_slices(slices);
    if (reply.status != Status::done) return reply;
    const optim::VectorName name = gradient_of(id);
    auto& vectors = data_.batch.vectors;
    if (vectors.contains(name)) return Reply{};  // sealed twice: the first one counts
    if (!data_.batch.open || data_.batch.open->id != id) {
      return refused(Status::superseded, "evaluation " + to_string(id) + " has ended");
    }
    if (batch_bytes() + space_bytes() > memory_limit_ || vectors.size() >= kMostVectors) {
      return refused(Status::full, "there is no room for vector " + quoted(name));
    }
    auto vector = std::make_shared<BatchVector>();
    vector->made = kSealed;
    vector->slices.resize(data_.definition->slices.size());
    for (const BatchSlice& slice : slices) vector->slices[slice.slice] = array_of(slice.values);
    if (!complete(*vector)) {
      return refused(Status::wrong_shape, "vector " + quoted(name) + " lacks slices");
    }
    const std::lock_guard lock(mutex_);
    vectors.emplace(name, std::move(vector));
    return Reply{};
  });
}

}  // namespace convoy::server
