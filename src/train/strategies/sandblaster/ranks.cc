#include "train/strategies/sandblaster/ranks.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>

#include "convoy/base/error.h"

namespace convoy::train {

template <typename T>
PortionRanks<T>::PortionRanks(const comm::Communicator& ranks, BatchService& service,
                              PortionPass<T>& pass, PortionSource& source)
    : ranks_(ranks.duplicate()),
      service_(service),
      pass_(pass),
      source_(source),
      pushed_(pass.vectors(), true) {
  if (ranks_.rank() > 0) gradient_.resize(pushed_.size());
}

template <typename T>
void PortionRanks<T>::tell(const Order& order) {
  if (ranks_.size() == 1) return;
  Order told = order;
  ranks_.broadcast(comm::buffer_of(told), 0);
}

template <typename T>
template <typename Work>
bool PortionRanks<T>::on_all(const Work& work) {
  if (ranks_.size() == 1) {
    work();
    return true;
  }
  std::exception_ptr error;
  bool refused = false;
  try {
    work();
  } catch (const UsageError&) {
    error = std::current_exception();
    refused = true;
  } catch (...) {
    error = std::current_exception();
  }
  const bool failed = error != nullptr && !refused;
  const bool gone = failed && (service_.lost() || !service_.ended().empty());
  std::array<std::int64_t, 3> any{refused ? 1 : 0, failed ? 1 : 0, gone ? 1 : 0};
  ranks_.allreduce(comm::buffer_of(any), comm::ReduceOp::max);
  gone_ = any[2] > 0;
  if (any[1] > 0) others_follow_ = false;
  const char* const kOther = "another rank of this replica could not do its part";
  if (any[1] > 0 && !failed) throw Failure(kOther);
  // The first rank decides what that means; the others wait for what it says.
  if (any[1] == 0 && any[0] > 0 && ranks_.rank() > 0) return false;
  if (any[0] > 0 && error == nullptr) throw UsageError(kOther);
  if (error) std::rethrow_exception(error);
  return true;
}

template <typename T>
void PortionRanks<T>::begin(const server::EvaluationId& id) {
  tell({kBegin, id.iteration, id.evaluation});
  pass_.weights().set_weights();
}

template <typename T>
double PortionRanks<T>::compute(std::uint32_t portion, std::span<T> gradient) {
  tell({kCompute, portion});
  return pass_.compute(portion, gradient);
}

template <typename T>
void PortionRanks<T>::ahead(const server::PortionGroup& group) {
  tell({kAhead, group.first, group.log2_size});
  source_.ahead(group);
}

template <typename T>
void PortionRanks<T>::begin_group(const server::PortionGroup& group) {
  tell({kBeginGroup, group.first, group.log2_size});
}

template <typename T>
void PortionRanks<T>::fetch(const optim::VectorName& name,
                            std::span<const server::BatchView<T>> to) {
  tell({kFetch, name.iteration, name.evaluation});
  on_all([&] { service_.fetch(name, to); });
}

template <typename T>
server::GroupAnswer PortionRanks<T>::add_group(const server::EvaluationId& id,
                                               const server::PortionGroup& group,
                                               std::span<const server::BatchView<const T>> values) {
  tell({kAdd, id.iteration, id.evaluation, group.first, group.log2_size});
  server::GroupAnswer answer = server::GroupAnswer::had;
  on_all([&] { answer = service_.add_group(id, group, values); });
  return worst(answer);
}

// What one rank has of the group may have come before what another has.
template <typename T>
server::GroupAnswer PortionRanks<T>::worst(server::GroupAnswer own) const {
  if (ranks_.size() == 1) return own;
  using server::GroupAnswer;
  std::array<std::int64_t, 3> any{own == GroupAnswer::kept ? 1 : 0,
                                  own == GroupAnswer::ended ? 1 : 0,
                                  own == GroupAnswer::overlaps ? 1 : 0};
  ranks_.allreduce(comm::buffer_of(any), comm::ReduceOp::max);
  return any[2] > 0   ? GroupAnswer::overlaps
         : any[1] > 0 ? GroupAnswer::ended
         : any[0] > 0 ? GroupAnswer::kept
                      : GroupAnswer::had;
}

template <typename T>
void PortionRanks<T>::finish() {
  if (others_follow_) tell({kFinish});
  others_follow_ = false;
}

// -- On the other ranks

template <typename T>
void PortionRanks<T>::own_compute(std::uint32_t portion) {
  std::fill(gradient_.begin(), gradient_.end(), T(0));
  if (std::isfinite(pass_.compute(portion, gradient_))) sum_.add(gradient_);
}

template <typename T>
void PortionRanks<T>::own_add(const server::EvaluationId& id, const server::PortionGroup& group) {
  server::GroupAnswer answer = server::GroupAnswer::had;
  const bool done = on_all([&] {
    const std::span<const T> sum = sum_.take();
    std::vector<server::BatchView<const T>> views;
    std::size_t at = 0;
    for (const server::BatchView<T>& view : pushed_.views()) {
      views.push_back({view.vector, sum.subspan(at, view.values.size())});
      at += view.values.size();
    }
    answer = service_.add_group(id, group, std::span<const server::BatchView<const T>>(views));
  });
  if (done) worst(answer);  // else the first rank has thrown
}

template <typename T>
void PortionRanks<T>::obey(const Order& order) {
  const server::EvaluationId id{order[1], static_cast<std::int32_t>(order[2])};
  switch (order[0]) {
    case kFetch:
      on_all([&] {
        service_.fetch({optim::VectorRole::weights, id.iteration, id.evaluation},
                       pass_.weights().views());
      });
      return;
    case kBegin:
      return pass_.weights().set_weights();
    case kAhead:
      return source_.ahead(
          {static_cast<std::uint32_t>(order[1]), static_cast<std::uint8_t>(order[2])});
    case kBeginGroup:
      return sum_.clear();
    case kCompute:
      return own_compute(static_cast<std::uint32_t>(order[1]));
    case kAdd:
      return own_add(id,
                     {static_cast<std::uint32_t>(order[3]), static_cast<std::uint8_t>(order[4])});
    default:
      throw Failure("the first rank of this replica is of another version");
  }
}

template <typename T>
void PortionRanks<T>::follow() {
  while (true) {
    Order order{};
    ranks_.broadcast(comm::buffer_of(order), 0);
    if (order[0] == kFinish) return;
    obey(order);
  }
}

template class PortionRanks<float>;
template class PortionRanks<double>;

}  // namespace convoy::train
