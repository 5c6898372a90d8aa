// Whether what a strategy's ranks infer together is complete.
#pragma once

#include "convoy/data/sample_source.h"
#include "convoy/train/evaluate.h"

namespace convoy::train {

// Throws UsageError, on every rank, unless Strategy::infer is true on one rank of each share: an
// empty batch shows it, with which nobody is waited for. `source` gives the batches that come then.
// Collective.
void check_inference(const Evaluated& what, const data::SampleSource& source);

// A share without samples, as the source would give it.
data::Batch empty_share(const Evaluated& what, const data::SampleSource& source);

}  // namespace convoy::train
