// What somebody should know of a data set that was opened: which files in its folder it left out.
#pragma once

#include <string>
#include <vector>

namespace convoy::data {

// A Dataset may be one of these, too. A training writes each line to its log once, as a warning.
class Remarks {
 public:
  virtual ~Remarks() = default;

  // Gives one line for each remark, without an end of line; none on ranks that did not look.
  virtual std::vector<std::string> remarks() const = 0;
};

}  // namespace convoy::data
