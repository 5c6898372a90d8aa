// Which images a folder holds: in a subfolder per class, or with the labels of a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "convoy/data/dataset.h"
#include "convoy/data/peers.h"
#include "data/readers/image_walk.h"

namespace convoy::data {

struct ImageList {
  std::vector<std::string> classes;  // names of subfolders, ascending
  std::vector<std::string> names;    // paths below the folder of their class, ascending in each
  std::vector<std::size_t> ends;     // where in `names` each class ends
  // With a table the classes are its own, and names are paths below the folder itself, ascending;
  // the labels of each end in `labels` where `ends` says.
  bool table = false;
  std::vector<std::size_t> labels;
  std::vector<std::size_t> broken;  // links to nothing, ascending: bad records
  std::uint64_t fingerprint = 0;    // of names, sizes and labels
  LeftOut left_out;                 // on rank 0 alone

  // Image i's labels (the first, or -1), and its path; i < names.size().
  std::vector<std::int64_t> labels_of(std::size_t i) const;
  std::int64_t label(std::size_t i) const;
  std::string path(const std::string& folder, std::size_t i) const;
  bool is_broken(std::size_t i) const;
};

// Collective. Rank 0 walks over the folder and tells the others what is there; each asks for the
// sizes of its share of the files, and of a few of everybody's, which have to be the same. Throws
// the same UsageError on all ranks: see open_image_folder(). `table` may be null.
ImageList list_images(const std::string& folder, const LabelTable* table, Peers& peers);

// A list without its fingerprint and what was left out, as bytes, of which a name takes those that
// it doesn't have in common with the one before it, and two more.
std::vector<std::byte> pack_list(const ImageList& list);
ImageList unpack_list(const std::vector<std::byte>& bytes);

}  // namespace convoy::data
