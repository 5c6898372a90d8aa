// This says where a training is. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>

namespace convoy::train {

// This is a moment after an update, or before the first. How far a training has come is its
// position in the data, which means the same whatever the batch and the number of ranks; updates
// are counted beside it.
struct Moment {
  std::uint64_t epoch = 0;   // from 0
  std::size_t consumed = 0;  // samples of this epoch
  std::size_t samples = 0;   // in an epoch
  bool epoch_over = false;   // nothing of it is left, whatever was left out
  std::int64_t step = 0;     // updates done
  std::int64_t steps = 0;    // of the whole training, if its batch stays as it is

  std::uint64_t whole_epochs() const { return epoch + (epoch_over ? 1 : 0); }
  // Passes over the data so far: 2.5 in the middle of the third.
  double epochs() const {
    if (epoch_over) return static_cast<double>(epoch + 1);
    return static_cast<double>(epoch) +
           static_cast<double>(consumed) / static_cast<double>(samples);
  }
};

// This is what a rank may ask for; a strategy unites the requests of all ranks (bitwise or), since
// only together can they stop or write a checkpoint.
enum Request : std::uint32_t { kStop = 1, kCheckpoint = 2 };

}  // namespace convoy::train
