// Which labels each image gets.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/packed/label_lists.h"
#include "data/readers/label_table.h"

namespace convoy::data {

// An image that gets labels.
struct Unlabeled {
  std::string_view name;    // for messages, the list and the table
  std::string_view folder;  // its class, if nothing else says it; may be empty
  // The numbers that stand beside it, if anything does; ascending, each once.
  std::optional<std::span<const std::uint32_t>> numbers;
};

struct LabelRules {
  std::string source;                 // for messages
  std::vector<std::string> given;     // the classes, if the user names them
  std::vector<std::string> recorded;  // the names of numbers, if the source holds them
  // Name of an image -> class, if the user lists them: the file and what it says.
  std::string list_file;
  std::map<std::string, std::string, std::less<>> list;
  // Name of an image -> classes, if the user has a table: the file and what it says. Its classes
  // are the given ones, too.
  std::string table_file;
  std::optional<ReadTable> table;
};

struct Labeled {
  std::vector<std::string> classes;
  LabelLists labels;               // in the order of images; each ascending
  std::uint64_t unused_lines = 0;  // of the list: no image has their names
};

// A text file of lines "NAME CLASS". Throws UsageError naming file and line.
void read_label_list(const std::string& file, LabelRules& rules);

// "[0, 2]" -> {0, 2}, ascending. Nothing if it is anything else, or a number is there twice.
std::optional<std::vector<std::uint32_t>> parse_label_numbers(std::string_view json);

// Labels all images. The table or the list comes first, then numbers, then folders, and one of them
// has to hold for all images. Classes are the given ones, or the recorded ones of numbers (digits
// if none are), or all there are in alphabetical order. Throws UsageError naming an image without a
// class, or of a class or with a number that is not among them; an image that the table lacks, or a
// line of it for which there is none; or two images of one line of the list.
Labeled assign_labels(const LabelRules& rules, std::span<const Unlabeled> images);

}  // namespace convoy::data
