#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/data/dataset.h"
#include "convoy/data/remarks.h"
#include "convoy/data/transform.h"
#include "data/readers/image_list.h"

namespace convoy::data {
namespace {

// Damaged file systems report absurd sizes; no photograph has 1 GiB.
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 30;

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

class ImageFolder final : public Dataset, public Remarks {
 public:
  ImageFolder(std::string folder, ImageList list)
      : folder_(std::move(folder)), list_(std::move(list)) {}

  std::size_t size() const override { return list_.names.size(); }
  const std::vector<std::string>& classes() const override { return list_.classes; }
  Record read(std::size_t i, std::vector<std::byte>& scratch) const override {
    // A bad record like any other, where a file that vanishes in training is a failure.
    if (list_.is_broken(i)) throw UsageError("a link that leads nowhere");
    read_into(key(i), scratch);
    // What the name promises is not always what is inside.
    return {scratch, encoding_of(scratch), {}, label(i)};
  }
  std::string key(std::size_t i) const override { return list_.path(folder_, i); }
  std::int64_t label(std::size_t i) const override { return list_.label(i); }
  bool label_lists() const override { return list_.table; }
  std::vector<std::int64_t> labels(std::size_t i) const override { return list_.labels_of(i); }
  std::uint64_t fingerprint() const override { return list_.fingerprint; }
  std::vector<std::string> remarks() const override { return list_.left_out.lines(folder_); }

 private:
  std::string folder_;
  ImageList list_;
};

}  // namespace

std::shared_ptr<Dataset> open_image_folder(const std::string& folder) {
  Alone alone;
  return open_image_folder(folder, alone);
}

std::shared_ptr<Dataset> open_image_folder(const std::string& folder, Peers& peers) {
  return std::make_shared<ImageFolder>(folder, list_images(folder, nullptr, peers));
}

std::shared_ptr<Dataset> open_image_folder(const std::string& folder, const LabelTable& table,
                                           Peers& peers) {
  return std::make_shared<ImageFolder>(folder, list_images(folder, &table, peers));
}

}  // namespace convoy::data
