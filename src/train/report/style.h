// How a page looks: on paper, on a phone, in the dark.
#pragma once

#include <string>

namespace convoy::train {

std::string style_sheet();

}  // namespace convoy::train
