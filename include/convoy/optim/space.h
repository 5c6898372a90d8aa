// The vectors that a batch optimizer works on, wherever they lie: in this process, or in slices on
// the shards of a parameter server (Dean et al. 2012, section 4.2). The method sees their names and
// scalars alone.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace convoy::optim {

enum class VectorRole : std::uint8_t {
  weights,    // a point at which the objective is evaluated
  gradient,   // the objective's gradient at the weights of the same iteration and evaluation
  direction,  // in which an iteration searches
  step,       // s: how far an iteration has moved the weights
  change      // y: how that has changed the gradient
};

// A name is given once, and what has it never changes: a command that is repeated has the same
// result.
struct VectorName {
  VectorRole role = VectorRole::weights;
  std::int64_t iteration = 0;
  // Within the iteration: of weights and gradients, and of a direction that is searched second.
  std::int32_t evaluation = 0;
  auto operator<=>(const VectorName&) const = default;
};

// "gradient 12.3" for evaluation 3 of iteration 12.
std::string to_string(const VectorName& name);

struct Term {
  double factor = 0;
  VectorName vector;
};

using VectorPair = std::pair<VectorName, VectorName>;

// Calls of one space come from one thread at a time. All throw UsageError for a name that nothing
// has, and Failure for what a space of other processes can't mend.
class Space {
 public:
  virtual ~Space() = default;

  // The scalar products of some pairs, asked for at once: one round trip where vectors lie
  // elsewhere. Each is the exact sum of its elements' products, rounded once, so that it does not
  // depend on how vectors are cut into slices.
  virtual std::vector<double> dots(std::span<const VectorPair> pairs) = 0;

  // into = the sum of factor times vector, of each element by itself: added up in double in the
  // order of `terms`, and rounded once to the vectors' own type. Zeros if there are no terms.
  virtual void combine(const VectorName& into, std::span<const Term> terms) = 0;

  // Element by element, rounded once.
  virtual void multiply(const VectorName& into, const VectorName& a, const VectorName& b) = 0;

  // Frees every vector but these.
  virtual void keep(std::span<const VectorName> names) = 0;
};

// into = from; into = factor times from; into = to + factor times from.
void copy(Space& space, const VectorName& into, const VectorName& from);
void scale(Space& space, const VectorName& into, double factor, const VectorName& from);
void axpy(Space& space, const VectorName& into, const VectorName& to, double factor,
          const VectorName& from);

// What a space does, on slices in memory. `vectors[i]` goes with `factors[i]`; `into` may be one of
// them.
template <typename T>
void combine_slices(std::span<const double> factors, std::span<const T* const> vectors, T* into,
                    std::size_t count);

// A space in this process's memory, of vectors of one length. T: float or double.
template <typename T>
class MemorySpace final : public Space {
 public:
  explicit MemorySpace(std::size_t size) : size_(size) {}

  std::vector<double> dots(std::span<const VectorPair> pairs) override;
  void combine(const VectorName& into, std::span<const Term> terms) override;
  void multiply(const VectorName& into, const VectorName& a, const VectorName& b) override;
  void keep(std::span<const VectorName> names) override;

  // Throws UsageError where the length is another.
  void put(const VectorName& name, std::vector<T> values);
  const std::vector<T>& get(const VectorName& name) const;
  std::size_t vectors() const { return vectors_.size(); }

 private:
  std::size_t size_;
  std::map<VectorName, std::vector<T>> vectors_;
};

}  // namespace convoy::optim
