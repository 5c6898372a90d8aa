// Which label each image gets.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::data {

inline constexpr std::int64_t kNoLabel = -1;

// An image that gets a label.
struct Unlabeled {
  std::string_view name;          // for messages and the list
  std::string_view folder;        // its class, if nothing else says it; may be empty
  std::int64_t label = kNoLabel;  // the number that stands beside it, if any does
};

struct LabelRules {
  std::string source;                 // for messages
  std::vector<std::string> given;     // the classes, if the user names them
  std::vector<std::string> recorded;  // the names of numbers, if the source holds them
  // Name of an image -> class, if the user lists them: the file and what it says.
  std::string list_file;
  std::map<std::string, std::string, std::less<>> list;
};

// A text file of lines "NAME CLASS". Throws UsageError naming file and line.
void read_label_list(const std::string& file, LabelRules& rules);

// Labels all images; returns the names of the classes. The list comes first, then numbers, then
// folders, and one of them has to hold for all images. Classes are the given ones, or the recorded
// ones of numbers (digits if none are), or all there are in alphabetical order. Throws UsageError
// naming an image without a class, or of a class or with a number that is not among them.
std::vector<std::string> assign_labels(const LabelRules& rules, std::span<Unlabeled> images);

}  // namespace convoy::data
