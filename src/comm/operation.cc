#include "convoy/comm/operation.h"

#include <exception>
#include <utility>

#include "comm/engine/engine.h"
#include "convoy/base/error.h"

namespace convoy::comm {

Operation::Operation() = default;
Operation::Operation(std::shared_ptr<OperationState> state) : state_(std::move(state)) {}
Operation::Operation(Operation&&) noexcept = default;

Operation& Operation::operator=(Operation&& other) {
  if (this != &other) {
    if (state_) wait();
    state_ = std::move(other.state_);
  }
  return *this;
}

Operation::~Operation() {
  if (!state_ || state_->done) return;
  if (std::uncaught_exceptions() > 0) {
    state_->engine->cancel(*state_);
    return;
  }
  try {
    wait();
  } catch (const std::exception&) {
    // The engine has told the user and every later call throws; a destructor can't.
  }
}

bool Operation::done() { return !state_ || state_->engine->done(*state_); }

void Operation::wait() {
  if (!state_) return;
  // Empty afterwards, so that a handle that failed does not fail twice.
  const auto state = std::exchange(state_, nullptr);
  state->engine->wait(*state);
}

}  // namespace convoy::comm
