// Networks divided over ranks (Dean et al. 2012, section 3).
#pragma once

#include <memory>

namespace convoy::train {

class Registry;
class Strategy;
void add_partitioned(Registry& registry);
// Makes one for strategies of which it is a part.
std::unique_ptr<Strategy> make_partitioned();

}  // namespace convoy::train
