// The images below a folder, and what is left out there.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace convoy::data {

// Files of one kind: how many, and the first that was found.
struct SomeFiles {
  std::size_t count = 0;
  std::string first;

  void add(const std::string& path);
};

// What a walk over a folder passed over, though somebody may miss it.
struct LeftOut {
  SomeFiles pictures;  // of formats that aren't read
  SomeFiles links;     // that lead nowhere, and have no image's name

  // What to tell the user, a line each; empty: nothing.
  std::vector<std::string> lines(const std::string& folder) const;
};

bool is_hidden(const std::filesystem::path& path);

// Which folder it is, by whatever path. Throws std::filesystem::filesystem_error.
using FolderId = std::pair<dev_t, ino_t>;
FolderId folder_id(const std::filesystem::path& folder);

// What lies below a folder.
struct FoundImages {
  std::vector<std::string> images;  // paths below the folder, ascending
  std::vector<std::string> broken;  // those of them that are links to nothing
};

// Looks for images at any depth. Links to folders are followed, since data is often put together
// from several disks, but for those to a folder that they are in.
class ImageWalk {
 public:
  explicit ImageWalk(LeftOut& left_out) : left_out_(left_out) {}

  // Throws std::filesystem::filesystem_error.
  FoundImages below(const std::filesystem::path& folder);

 private:
  void look_into(const std::filesystem::path& folder, const std::string& prefix);
  void add_file(const std::string& path, const std::string& below);
  void add_broken(const std::string& path, const std::string& below);

  LeftOut& left_out_;
  FoundImages found_;
  std::vector<FolderId> around_;  // the folders that it is in
};

}  // namespace convoy::data
