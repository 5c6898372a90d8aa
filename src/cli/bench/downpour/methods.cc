// What methods and runs are called.
#include <algorithm>

#include "cli/bench/downpour/comparison.h"

namespace convoy::cli {

const char* name(Method method) {
  switch (method) {
    case Method::sgd:
      return "sgd";
    case Method::fixed:
      return "fixed";
    case Method::adagrad:
      return "adagrad";
    case Method::sandblaster:
      return "sandblaster";
    case Method::gpu:
      return "gpu";
    case Method::sync:
      break;
  }
  return "sync";
}

const char* title(Method method) {
  switch (method) {
    case Method::sgd:
      return "SGD, one worker";
    case Method::fixed:
      return "Downpour, fixed rate";
    case Method::adagrad:
      return "Downpour, Adagrad";
    case Method::sandblaster:
      return "Sandblaster";
    case Method::gpu:
      return "SGD, one worker with a GPU";
    case Method::sync:
      break;
  }
  return "synchronous SGD";
}

std::string told_apart(const Arm& arm, const std::vector<const Arm*>& others) {
  const auto differs = [&](const auto& member) {
    return std::any_of(others.begin(), others.end(), [&](const Arm* other) {
      return other->method == arm.method && other->*member != arm.*member;
    });
  };
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (arm.method == Method::sync)
    add(std::to_string(arm.replicas) + (arm.replicas == 1 ? " worker" : " workers"));
  if (has_servers(arm.method))
    add(std::to_string(arm.replicas) + (arm.replicas == 1 ? " replica" : " replicas"));
  if (differs(&Arm::n_fetch) || differs(&Arm::n_push)) {
    add(arm.n_fetch == arm.n_push
            ? "n_fetch = n_push = " + std::to_string(arm.n_fetch)
            : "n_fetch " + std::to_string(arm.n_fetch) + ", n_push " + std::to_string(arm.n_push));
  }
  if (differs(&Arm::seed)) add("seed " + std::to_string(arm.seed));
  return text;
}

std::string full_title(const Arm& arm, const std::vector<const Arm*>& others) {
  const std::string apart = told_apart(arm, others);
  return title(arm.method) + (apart.empty() ? "" : ", " + apart);
}

}  // namespace convoy::cli
