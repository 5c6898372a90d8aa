#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "convoy/base/checksum.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/data/dataset.h"
#include "data/decode/decode.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

// Damaged file systems report absurd sizes; no photograph has 1 GiB.
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 30;

bool hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

bool is_image_name(const fs::path& path) {
  std::string extension = path.extension().native();
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

// The images of one class, as paths below its folder.
std::vector<std::string> images_below(const fs::path& folder) {
  std::vector<std::string> images;
  for (fs::recursive_directory_iterator at(folder), end; at != end; ++at) {
    if (hidden(at->path())) {
      if (at->is_directory()) at.disable_recursion_pending();
    } else if (is_image_name(at->path()) && at->is_regular_file()) {
      images.push_back(at->path().lexically_relative(folder).native());
    }
  }
  std::sort(images.begin(), images.end());
  return images;
}

[[noreturn]] void fail_reading(const std::string& path, int error) {
  throw Failure("reading " + path + " on " + host_name() + ": " +
                std::generic_category().message(error));
}

// Into memory that is used for one file after another.
void read_into(const std::string& path, std::vector<std::byte>& to) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) fail_reading(path, errno);
  if (status.st_size < 0 || static_cast<std::uint64_t>(status.st_size) > kMaxFile) {
    fail_reading(path, EFBIG);
  }
  to.resize(static_cast<std::size_t>(status.st_size));
  for (std::size_t had = 0; had < to.size();) {
    const ssize_t count = ::read(file.get(), to.data() + had, to.size() - had);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_reading(path, errno);
    if (count == 0) {  // it has shrunk since: what is missing will show in decoding
      to.resize(had);
      break;
    }
    had += static_cast<std::size_t>(count);
  }
}

class ImageFolder final : public Dataset {
 public:
  explicit ImageFolder(const fs::path& folder) : folder_(folder.native()) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.is_directory() && !hidden(entry.path())) {
        classes_.push_back(entry.path().filename().native());
      }
    }
    if (classes_.empty()) {
      throw UsageError(folder_ + ": no subfolders; there must be one for each class");
    }
    std::sort(classes_.begin(), classes_.end());
    for (const std::string& name : classes_) {
      std::vector<std::string> images = images_below(folder / name);
      if (images.empty()) {
        throw UsageError((folder / name).native() +
                         ": no .jpg, .jpeg or .png file for this class; remove the folder if it "
                         "is not a class");
      }
      names_.insert(names_.end(), std::make_move_iterator(images.begin()),
                    std::make_move_iterator(images.end()));
      ends_.push_back(names_.size());
    }
    fingerprint_ = hash();
  }

  std::size_t size() const override { return names_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }

  Record read(std::size_t i, std::vector<std::byte>& scratch) const override {
    read_into(key(i), scratch);
    // What the name promises is not always what is inside.
    const Encoding encoding = is_png(scratch) ? Encoding::png : Encoding::jpeg;
    return {scratch, encoding, {}, label(i)};
  }

  std::string key(std::size_t i) const override {
    return (fs::path(folder_) / classes_[static_cast<std::size_t>(label(i))] / names_[i]).native();
  }

  std::int64_t label(std::size_t i) const override {
    return std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin();
  }

  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  std::uint64_t hash() const {
    Xxh3 hash;
    const auto add = [&hash](const std::string& text) {
      hash.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
    };
    for (const std::string& name : classes_) add(name);
    hash.update(std::as_bytes(std::span(ends_)));
    for (std::size_t i = 0; i < names_.size(); ++i) {
      add(names_[i]);
      const std::uint64_t bytes[] = {fs::file_size(key(i))};
      hash.update(std::as_bytes(std::span(bytes)));
    }
    return hash.digest();
  }

  std::string folder_;
  std::vector<std::string> classes_;
  std::vector<std::string> names_;  // below the folder of their class
  std::vector<std::size_t> ends_;   // where in names_ each class ends
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::shared_ptr<Dataset> open_image_folder(const std::string& folder) {
  try {
    if (!fs::is_directory(folder)) {
      throw UsageError(folder + (fs::exists(folder) ? ": not a folder" : ": no such folder"));
    }
    return std::make_shared<ImageFolder>(folder);
  } catch (const fs::filesystem_error& error) {
    const std::string path = error.path1().empty() ? folder : error.path1().native();
    throw UsageError(path + ": " + error.code().message());
  }
}

}  // namespace convoy::data
