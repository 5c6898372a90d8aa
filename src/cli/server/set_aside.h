// What an earlier job has left, out of the way of a new one that may not come to begin.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace convoy::cli {

// Removes a file, or a folder with all that is in it; nothing there is fine. Throws Failure.
void wipe(const std::filesystem::path& path);

// Works in one folder, whose subfolder "before" gets what is set aside. What was there when a
// process was killed is still there for the next one.
class SetAside {
 public:
  static constexpr const char* kName = "before";
  // That can't be removed: a name that begins with this.
  static constexpr const char* kDropped = "before.dropped";

  explicit SetAside(std::string folder) : folder_(std::move(folder)) {}

  std::string where() const { return folder_ + "/" + kName; }
  bool any() const;
  // Moves these, which are in the folder, there. What something of that name was set aside for
  // before has never begun: it is removed. So is the inside of the root of a disk of its own, which
  // can't be moved. Throws Failure.
  void take(const std::vector<std::string>& paths);
  // Moves all back to where it was. REQUIRES: what took its place is gone. Throws Failure.
  void restore();
  // Removes it. Throws Failure; nothing is set aside then either.
  void drop();

 private:
  std::string folder_;
};

}  // namespace convoy::cli
