// A table of images' labels.
#include <cstddef>
#include <cstdint>
#include <string>

#include "convoy/base/error.h"
#include "data/readers/label_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy::data;
  const std::string text(data, data + size);
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
