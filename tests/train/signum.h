// An optimizer as a plugin would bring it: signs of a running mean of gradients (signum; Bernstein
// et al. 2018), with weight decay.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/train/registry.h"

namespace convoy::train::testing_data {

class Signum final : public UpdateRule {
 public:
  Signum(double momentum, double weight_decay) : momentum_(momentum), weight_decay_(weight_decay) {}

  std::vector<std::string> slots() const override { return {"mean"}; }
  void update(const ParameterUpdate& u) const override {
    torch::Tensor mean = u.slots[0];
    mean.mul_(momentum_).add_(u.gradient, 1 - momentum_);
    // Also depends on the count of updates, which has to go on.
    const double rate = u.lr * (1 + 1.0 / static_cast<double>(u.step));
    torch::Tensor weights = u.parameter;
    weights.mul_(1 - rate * weight_decay_).add_(mean.sign(), -rate);
  }

 private:
  double momentum_, weight_decay_;
};

// A rule that says what it is told to.
class Odd final : public UpdateRule {
 public:
  explicit Odd(std::vector<std::string> slots, bool type = false)
      : slots_(std::move(slots)), type_(type) {}
  std::vector<std::string> slots() const override { return slots_; }
  void update(const ParameterUpdate& u) const override {
    u.slots[0] = type_ ? u.slots[0].to(torch::kHalf) : torch::zeros({5});
  }

 private:
  std::vector<std::string> slots_;
  bool type_;
};

inline void add_optimizers(Registry& registry) {
  // One of its keys has the name of a built-in optimizer's, with another default.
  registry.add_optimizer(
      "signum",
      [](const OptimizerRequest& request) {
        const double momentum = request.options.number("momentum");
        if (!(momentum >= 0 && momentum < 1))
          throw UsageError("optimizer.momentum has to be from 0 to 1, without 1");
        return std::make_unique<Signum>(momentum, request.weight_decay);
      },
      {{"momentum", 0.9, "of the running mean"}, {"cautious", false, "unused"}});
  registry.add_optimizer("odd",
                         [](const OptimizerRequest& request) -> std::unique_ptr<UpdateRule> {
                           const std::string& how = request.options.text("how");
                           if (how == "nothing") return nullptr;
                           if (how == "throws")
                             throw std::runtime_error("no such device\nand so on");
                           if (how == "twice")
                             return std::make_unique<Odd>(std::vector<std::string>{"a", "a"});
                           if (how == "slash")
                             return std::make_unique<Odd>(std::vector<std::string>{"a/b"});
                           return std::make_unique<Odd>(std::vector<std::string>{"a"},
                                                        how == "type");
                         },
                         {{"how", std::string("shape"), "what is odd"}});
}

}  // namespace convoy::train::testing_data
