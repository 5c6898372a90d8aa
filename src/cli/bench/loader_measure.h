// The loader against bare decoding of the same crops, in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convoy/data/dataset.h"
#include "convoy/data/loader.h"
#include "convoy/data/transform.h"

namespace convoy::cli {

// Packed records, all in memory: neither a disk nor a page cache takes part.
std::shared_ptr<const data::Dataset> hold_records(const std::vector<std::string>& files);

struct LoaderSettings {
  data::TransformOptions transform;
  data::Layout layout = data::Layout::channels_last;
  std::size_t batch = 64;
  std::size_t ahead = 2;
  int repetitions = 7;
  double seconds = 1;  // of one side of a repetition, about
};

struct LoaderTimes {
  std::vector<double> images_per_s, floor_images_per_s;  // of each repetition
  std::vector<double> wait_s;                            // that next() waited in it
  double decode_s = 0;                                   // of all worker threads and repetitions
  std::size_t images = 0;                                // of one side of a repetition
};

// The records must be JPEGs. Each repetition sees epochs of its own, both sides the same.
LoaderTimes measure_loader(const std::shared_ptr<const data::Dataset>& records,
                           const LoaderSettings& settings, int threads);

}  // namespace convoy::cli
