// Slices of tensors out of the files of a checkpoint, piece by piece.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/descriptor.h"
#include "convoy/train/checkpoint_folder.h"

namespace convoy::train {

// The most that is read, written or sent at once.
inline constexpr std::size_t kPieceBytes = std::size_t{8} << 20;

// Calls `use` with slices that lie one behind the other in `slice`, of at most `limit` bytes (or
// one element) each, in order.
void for_each_piece(const Slice& slice, std::size_t element, std::size_t limit,
                    const std::function<void(const Slice& piece)>& use);

// One thread at a time.
class SliceReader {
 public:
  using Use = std::function<void(const Slice& piece, std::span<const std::byte> bytes)>;

  explicit SliceReader(std::string checkpoint) : checkpoint_(std::move(checkpoint)) {}

  // Calls `use` with the pieces of a stored slice, in order. Throws UsageError naming the file and
  // the slice when it can't be read, or when, all pieces given, its checksum is another one.
  void read(const StoredTensor& tensor, const StoredSlice& stored, const Use& use);

 private:
  std::string checkpoint_;
  std::map<std::string, Descriptor> files_;
  std::vector<std::byte> buffer_;
};

}  // namespace convoy::train
