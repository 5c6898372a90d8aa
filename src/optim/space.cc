#include "convoy/optim/space.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/exact_sum.h"
#include "convoy/base/error.h"

namespace convoy::optim {

std::string to_string(const VectorName& name) {
  static constexpr std::array kRoles = {"weights", "gradient", "direction", "step", "change"};
  std::string text = kRoles[static_cast<std::size_t>(name.role)];
  text += " " + std::to_string(name.iteration);
  if (name.role == VectorRole::weights || name.role == VectorRole::gradient ||
      name.evaluation != 0) {
    text += "." + std::to_string(name.evaluation);
  }
  return text;
}

void copy(Space& space, const VectorName& into, const VectorName& from) {
  scale(space, into, 1, from);
}

void scale(Space& space, const VectorName& into, double factor, const VectorName& from) {
  const Term term{factor, from};
  space.combine(into, {&term, 1});
}

void axpy(Space& space, const VectorName& into, const VectorName& to, double factor,
          const VectorName& from) {
  const std::array<Term, 2> terms = {Term{1, to}, Term{factor, from}};
  space.combine(into, terms);
}

namespace {

// Each element is a sum in double, of terms in their order, that begins with the first one: so a
// copy keeps the sign of a zero.
template <typename T>
void combine_any(std::span<const double> factors, std::span<const T* const> vectors, T* into,
                 std::size_t count) {
  constexpr std::size_t kBlock = 512;  // of which the sums stay in the cache
  double sums[kBlock];
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t now = std::min(kBlock, count - at);
    std::fill_n(sums, now, 0.0);
    for (std::size_t term = 0; term < factors.size(); ++term) {
      const double factor = factors[term];
      const T* from = vectors[term] + at;
      if (term == 0) {
        for (std::size_t i = 0; i < now; ++i) sums[i] = factor * static_cast<double>(from[i]);
      } else {
        for (std::size_t i = 0; i < now; ++i) sums[i] += factor * static_cast<double>(from[i]);
      }
    }
    for (std::size_t i = 0; i < now; ++i) into[at + i] = static_cast<T>(sums[i]);
  }
}

// One and two terms are most of what methods ask for, and wait for memory alone without the sums.
template <typename T>
void combine_one(double factor, const T* from, T* into, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    into[i] = static_cast<T>(factor * static_cast<double>(from[i]));
}

template <typename T>
void combine_two(std::span<const double> factors, const T* a, const T* b, T* into,
                 std::size_t count) {
  const double of_a = factors[0], of_b = factors[1];
  for (std::size_t i = 0; i < count; ++i) {
    double sum = of_a * static_cast<double>(a[i]);
    sum += of_b * static_cast<double>(b[i]);
    into[i] = static_cast<T>(sum);
  }
}

}  // namespace

template <typename T>
void combine_slices(std::span<const double> factors, std::span<const T* const> vectors, T* into,
                    std::size_t count) {
  switch (factors.size()) {
    case 1:
      return combine_one(factors[0], vectors[0], into, count);
    case 2:
      return combine_two(factors, vectors[0], vectors[1], into, count);
    default:
      return combine_any(factors, vectors, into, count);
  }
}

template void combine_slices(std::span<const double>, std::span<const float* const>, float*,
                             std::size_t);
template void combine_slices(std::span<const double>, std::span<const double* const>, double*,
                             std::size_t);

template <typename T>
std::vector<double> MemorySpace<T>::dots(std::span<const VectorPair> pairs) {
  std::vector<double> results;
  results.reserve(pairs.size());
  for (const auto& [a, b] : pairs) {
    ExactSum sum;
    sum.add_products(get(a).data(), get(b).data(), size_);
    results.push_back(sum.value());
  }
  return results;
}

template <typename T>
void MemorySpace<T>::combine(const VectorName& into, std::span<const Term> terms) {
  std::vector<double> factors;
  std::vector<const T*> vectors;
  for (const Term& term : terms) {
    factors.push_back(term.factor);
    vectors.push_back(get(term.vector).data());
  }
  std::vector<T> values(size_);
  combine_slices<T>(factors, vectors, values.data(), size_);
  put(into, std::move(values));
}

template <typename T>
void MemorySpace<T>::multiply(const VectorName& into, const VectorName& a, const VectorName& b) {
  std::vector<T> values = get(a);
  const std::vector<T>& other = get(b);
  for (std::size_t i = 0; i < size_; ++i) values[i] *= other[i];
  put(into, std::move(values));
}

template <typename T>
void MemorySpace<T>::keep(std::span<const VectorName> names) {
  const std::set<VectorName> kept(names.begin(), names.end());
  for (const VectorName& name : kept) get(name);
  std::erase_if(vectors_, [&](const auto& entry) { return !kept.contains(entry.first); });
}

template <typename T>
void MemorySpace<T>::put(const VectorName& name, std::vector<T> values) {
  if (values.size() != size_) {
    throw UsageError("'" + to_string(name) + "' has " + std::to_string(values.size()) +
                     " elements, vectors of this "
                     "space have " +
                     std::to_string(size_));
  }
  vectors_[name] = std::move(values);
}

template <typename T>
const std::vector<T>& MemorySpace<T>::get(const VectorName& name) const {
  const auto found = vectors_.find(name);
  if (found == vectors_.end())
    throw UsageError("there is no vector '" + to_string(name) + "' in this space");
  return found->second;
}

template class MemorySpace<float>;
template class MemorySpace<double>;

}  // namespace convoy::optim
