// Reading lines of metrics.jsonl, fast.
#pragma once

#include <memory>
#include <string>

#include "convoy/train/metrics.h"

namespace convoy::train {

// One object is for many lines: memory is used again.
class RowParser {
 public:
  RowParser();
  ~RowParser();

  // Null for what is no JSON object with a "kind" and a whole "step" (step 0 to 10^15). Null as a
  // number is not a number; objects and lists in lists are left out. What it points to is good
  // until the next call.
  const MetricsRow* parse(const std::string& line);

 private:
  class Handler;
  std::unique_ptr<Handler> handler_;
};

}  // namespace convoy::train
