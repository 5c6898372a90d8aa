// Reports of runs: one HTML file that needs nothing else. Torch-free.
#pragma once

#include <string>
#include <vector>

namespace convoy::train {

// The page for these run folders: what each is and how it went, and for several of them curves in
// one picture, times to levels of a metric, and scaling. Runs may be going on, have been killed, or
// been resumed; of what a run doesn't have, the page says so. Curves are thinned so that every peak
// stays. Pictures are drawn by gnuplot. Throws UsageError for a path that is no run, Failure where
// gnuplot can't be started or a file can't be read.
std::string make_report(const std::vector<std::string>& folders);

}  // namespace convoy::train
