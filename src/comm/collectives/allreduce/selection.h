// Which algorithm an allreduce uses, as data.
//
//   selection = [rule *(";" rule)]
//   rule      = [sizes] ["ranks=" numbers] ["nodes=" numbers] algorithm *(parameter)
//   sizes     = [size] ".." [size]           of the buffer: "..32KiB", "1MiB..64MiB"
//   numbers   = number | [number] ".." [number]
//   algorithm = naive | recursive-doubling | ring | ring-rsag | multicolor | shared | hierarchical
//             | mpi
//   parameter = "k=" (number | "ranks")      of multicolor and hierarchical: the colors; without
//                                            it, choose_colors()
//             | "segment=" size              of these, ring and ring-rsag
//             | "in-flight=" number          of the same
//
// The first rule that fits, with an algorithm that the group can use, is taken; both ends of a
// range belong to it. What no rule covers is left to the built-in table. `mpi` leaves a call to the
// MPI library's own allreduce. Example: "..32KiB recursive-doubling; 32KiB.. ring-rsag
// segment=256KiB".
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collectives/allreduce/choice.h"

namespace convoy::comm {

template <class T>
struct Range {
  T least = 0;
  T most = std::numeric_limits<T>::max();

  bool contains(T value) const { return least <= value && value <= most; }
  bool everything() const { return *this == Range(); }
  bool operator==(const Range&) const = default;
};

struct AllreduceRule {
  Range<std::size_t> bytes;
  Range<int> ranks;
  Range<int> nodes;
  AllreduceChoice choice;

  std::string text() const;
  bool operator==(const AllreduceRule&) const = default;
};

class AllreduceSelection {
 public:
  // The built-in table alone.
  AllreduceSelection() : AllreduceSelection("", "") {}
  // Throws UsageError: one line with `source` (who gave the text), the rule, and what would be
  // right.
  AllreduceSelection(std::string_view text, const std::string& source);

  // Gives the same choice on every rank that gives the same arguments and text.
  const AllreduceChoice& choose(std::size_t bytes, int ranks, int nodes,
                                Abilities abilities = {}) const;

  // The rules in the order in which they are tried, the built-in ones last.
  const std::vector<AllreduceRule>& rules() const { return rules_; }
  // Rules as the parser reads them.
  std::string text() const;

 private:
  std::vector<AllreduceRule> rules_;
};

// An algorithm with its parameters: "multicolor k=4 segment=128KiB". Throws as AllreduceSelection.
AllreduceChoice parse_allreduce(std::string_view text, const std::string& source);
std::string text_of(const AllreduceChoice& choice);
const char* name_of(AllreduceAlgorithm algorithm);

// What differs between the texts of the ranks, by name of rank and rule; empty if they all say the
// same. Throws UsageError, on all ranks alike, if one of them is wrong in itself.
std::string difference_of_selections(const std::vector<std::string>& texts,
                                     const std::string& source);

}  // namespace convoy::comm
