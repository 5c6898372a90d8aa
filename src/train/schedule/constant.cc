#include "train/recipe/kinds.h"

namespace convoy::train {

void add_constant(Kinds<ScheduleKind>& kinds) {
  kinds.add({.name = "constant", .doc = "the rate stays", .rate = [](const ScheduleRequest& r) {
               return r.lr;
             }});
}

}  // namespace convoy::train
