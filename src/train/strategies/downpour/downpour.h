// Downpour SGD (Dean et al. 2012, section 4.1).
#pragma once

namespace convoy::train {

class Registry;
void add_downpour(Registry& registry);

}  // namespace convoy::train
