#include "data/readers/image_walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "data/packed/names.h"

namespace convoy::data {

namespace fs = std::filesystem;

void SomeFiles::add(const std::string& path) {
  if (count++ == 0) first = path;
}

std::vector<std::string> LeftOut::lines(const std::string& folder) const {
  std::vector<std::string> lines;
  const auto add = [&](const SomeFiles& files, const std::string& one, const std::string& many) {
    if (files.count == 0) return;
    lines.push_back(folder + ": " + std::to_string(files.count) + (files.count == 1 ? one : many) +
                    " left out, " + files.first + (files.count == 1 ? "" : " first"));
  };
  add(pictures, " picture that is no .jpg, .jpeg or .png file is",
      " pictures that are no .jpg, .jpeg or .png files are");
  add(links, " link that leads nowhere is", " links that lead nowhere are");
  return lines;
}

FolderId folder_id(const fs::path& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    throw fs::filesystem_error("stat", folder, std::error_code(errno, std::generic_category()));
  }
  return {status.st_dev, status.st_ino};
}

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

FoundImages ImageWalk::below(const fs::path& folder) {
  found_ = {};
  look_into(folder, "");
  std::sort(found_.images.begin(), found_.images.end());
  std::sort(found_.broken.begin(), found_.broken.end());
  return std::move(found_);
}

// Asks for a file only where the folder doesn't say what it is: there may be a million.
void ImageWalk::look_into(const fs::path& folder, const std::string& prefix) {
  const FolderId id = folder_id(folder);
  if (std::find(around_.begin(), around_.end(), id) != around_.end()) return;
  around_.push_back(id);
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_hidden(entry.path())) continue;
    const std::string name = entry.path().filename().native();
    std::error_code error;
    if (entry.is_directory(error)) {
      look_into(entry.path(), prefix + name + "/");
    } else if (entry.is_regular_file(error)) {
      add_file(entry.path().native(), prefix + name);
    } else if (entry.is_symlink(error) && !entry.exists(error)) {
      add_broken(entry.path().native(), prefix + name);
    }
  }
  around_.pop_back();
}

void ImageWalk::add_file(const std::string& path, const std::string& below) {
  if (is_image_name(path)) {
    found_.images.push_back(below);
  } else if (is_picture_name(path)) {
    left_out_.pictures.add(path);
  }
}

void ImageWalk::add_broken(const std::string& path, const std::string& below) {
  if (is_image_name(path)) {
    found_.images.push_back(below);
    found_.broken.push_back(below);
  } else {
    left_out_.links.add(path);
  }
}

}  // namespace convoy::data
