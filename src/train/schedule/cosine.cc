#include <cmath>
#include <numbers>

#include "train/recipe/kinds.h"

namespace convoy::train {

void add_cosine(Kinds<ScheduleKind>& kinds) {
  kinds.add({.name = "cosine",
             .doc = "down to end along half a cosine",
             .options = {end_key()},
             .rate = [](const ScheduleRequest& r) {
               const double end = r.options.number("end");
               const double cosine = (1 + std::cos(std::numbers::pi * r.part)) / 2;
               return r.lr * (end + (1 - end) * cosine);
             }});
}

}  // namespace convoy::train
