#include <cmath>

#include "train/recipe/kinds.h"

namespace convoy::train {

// Without warm-up these are the rates of PyTorch's PolynomialLR.
void add_polynomial(Kinds<ScheduleKind>& kinds) {
  kinds.add({.name = "polynomial",
             .doc = "down to end by a power of the part of the training that is left",
             .options = {end_key(),
                         {.key = "power",
                          .initial = 1.0,
                          .doc = "1: linearly; LARS's paper has 2",
                          .resume = ResumeRule::free,
                          .check = number_check([](double power) -> std::string {
                            return power <= 0 ? "has to be above 0" : "";
                          })}},
             .rate = [](const ScheduleRequest& r) {
               const double end = r.options.number("end");
               return r.lr * (end + (1 - end) * std::pow(1 - r.part, r.options.number("power")));
             }});
}

}  // namespace convoy::train
