// A network on some ranks, trained by Convoy and by PyTorch in turn.
#pragma once

#include <cstddef>

#include "cli/bench/ddp_figures.h"
#include "cli/bench/ddp_sides.h"

namespace convoy::cli {

struct DdpTurns {
  int repetitions = 5;
  double seconds = 3;    // that a turn of Convoy's takes, about
  int steps = 0;         // of a turn; 0: as many as take these seconds
  bool compile = false;  // torch.compile is a side as well
};

// `samples` are in the setting's folder (write_ddp_samples). A side that can't be measured says why
// in the result; without Convoy or PyTorch there is nothing to compare, and all sides do. Throws
// Failure when this process has been told to end.
DdpComparison compare_with_ddp(const DdpSetting& setting, const DdpPeer& peer,
                               const DdpTurns& turns, std::size_t samples);

}  // namespace convoy::cli
