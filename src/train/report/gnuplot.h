// Running gnuplot.
#pragma once

#include <string>

namespace convoy::train {

// What gnuplot prints for this script, without the user's settings. Throws Failure: naming the
// package where there is no gnuplot, with its message where it fails.
std::string run_gnuplot(const std::string& script);

}  // namespace convoy::train
