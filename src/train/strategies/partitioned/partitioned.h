// Networks divided over ranks (Dean et al. 2012, section 3).
#pragma once

namespace convoy::train {

class Registry;
void add_partitioned(Registry& registry);

}  // namespace convoy::train
