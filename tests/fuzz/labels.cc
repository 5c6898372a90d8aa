// The labels of images: a table of them, and the list beside one image.
#include <cstddef>
#include <cstdint>
#include <string>

#include "convoy/base/error.h"
#include "data/packed/labels.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy::data;
  const std::string text(data, data + size);
  if (const auto labels = parse_label_numbers(text)) {
    for (std::size_t i = 1; i < labels->size(); ++i)
      if ((*labels)[i - 1] >= (*labels)[i]) __builtin_trap();
  }
  for (const bool given : {false, true}) {
    try {
      const auto classes =
          given ? std::vector<std::string>{"dog", "cat"} : std::vector<std::string>();
      const ReadTable table = parse_label_table(text, {"labels", "classes"}, classes);
      for (std::size_t i = 0; i < table.lines.size(); ++i) {
        if (i > 0 && table.lines[i - 1].path >= table.lines[i].path) __builtin_trap();
        std::int64_t last = -1;
        for (const std::int64_t label : table.lines[i].labels) {
          if (label <= last || label >= static_cast<std::int64_t>(table.classes.size()))
            __builtin_trap();
          last = label;
        }
      }
    } catch (const convoy::UsageError&) {
      // Refused, as it should be.
    }
  }
  return 0;
}
