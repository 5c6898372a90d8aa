#include "lion.h"

#include <convoy/base/error.h>

#include <string>
#include <vector>

namespace {

class Lion final : public convoy::train::UpdateRule {
 public:
  Lion(double beta1, double beta2, double weight_decay)
      : beta1_(beta1), beta2_(beta2), weight_decay_(weight_decay) {}

  // Goes into checkpoints, as momentum/<parameter>.
  std::vector<std::string> slots() const override { return {"momentum"}; }

  void update(const convoy::train::ParameterUpdate& u) const override {
    torch::Tensor momentum = u.slots[0], weights = u.parameter;
    const torch::Tensor direction = momentum.mul(beta1_).add_(u.gradient, 1 - beta1_).sign_();
    weights.mul_(1 - u.lr * weight_decay_).sub_(direction, u.lr);
    momentum.mul_(beta2_).add_(u.gradient, 1 - beta2_);
  }

 private:
  double beta1_, beta2_, weight_decay_;
};

}  // namespace

std::unique_ptr<convoy::train::UpdateRule> lion(double beta1, double beta2, double weight_decay) {
  const auto check = [](const char* name, double beta) {
    if (beta >= 0 && beta < 1) return;
    throw convoy::UsageError(std::string("optimizer.") + name + " is " + std::to_string(beta) +
                             "; it has to be at least 0 and below 1");
  };
  check("beta1", beta1);
  check("beta2", beta2);
  return std::make_unique<Lion>(beta1, beta2, weight_decay);
}
