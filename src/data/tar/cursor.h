// The members of a tar and of the tars in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/tar/reader.h"

namespace convoy::data {

// Goes into members named *.tar as if they were folders: the training images of ImageNet come as a
// tar of a thousand tars. One thread at a time.
class TarCursor {
 public:
  // `source` must outlive this. With `nested`, tars in the tar are gone into.
  TarCursor(ByteStream& source, const std::string& name, bool nested);

  // The next member that is not a tar gone into. Names of members of inner tars begin with the
  // name of that tar without ".tar"; offsets count from the start of the outermost one.
  bool next(TarMember& member);
  // The bytes of the current member.
  TarReader& bytes() { return *levels_.back().reader; }
  TarReader& outermost() { return *levels_.front().reader; }

 private:
  struct Level {
    std::unique_ptr<TarReader> reader;
    std::string prefix;
    std::uint64_t offset;
  };
  std::string name_;
  bool nested_;
  std::vector<Level> levels_;
};

}  // namespace convoy::data
