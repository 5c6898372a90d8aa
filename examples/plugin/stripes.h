// Pictures of stripes, drawn when they are read: a data set without files.
#pragma once

#include <convoy/data/dataset.h>

#include <cstdint>
#include <memory>

// `samples` gray pictures of 24 x 24 pixels with stripes of one of four directions. Width, phase,
// contrast and noise of picture i follow from (seed, i) alone, so all ranks see the same data and a
// resumed run sees the same data again. `noise` is the largest disturbance of a pixel, 0 to 1.
std::shared_ptr<convoy::data::Dataset> draw_stripes(std::int64_t samples, std::int64_t seed,
                                                    double noise);
