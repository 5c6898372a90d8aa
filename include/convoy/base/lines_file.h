// A text file that grows by whole lines, and survives a kill at any moment.
#pragma once

#include <string>

#include "convoy/base/descriptor.h"

namespace convoy {

// Open for adding, by one process at a time. One thread at a time.
class LinesFile {
 public:
  // Makes it where there is none. A last line without a line feed was being written when its
  // process died: it is cut off. Throws UsageError where another process has it open, Failure where
  // it can't be written.
  explicit LinesFile(std::string path);

  const std::string& path() const { return path_; }
  // Gives what is in it.
  std::string text() const;

  // Adds a line (without its line feed) with one write, if the system takes it, and waits until it
  // is on the disk. Throws Failure when that fails; the file is as it was then.
  void append(const std::string& line);
  // Removes all that is in it.
  void clear();

 private:
  std::string path_;
  Descriptor file_;
};

}  // namespace convoy
