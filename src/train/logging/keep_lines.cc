#include "train/logging/keep_lines.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::train {

void keep_lines(const std::string& path, const std::function<bool(const std::string& line)>& keep) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::ifstream old(path, std::ios::binary);
  if (!old) throw Failure("cannot read " + path + ": " + std::strerror(errno));
  AtomicFile kept(path);
  std::string piece;
  std::string line;
  while (std::getline(old, line) && !old.eof()) {
    if (!keep(line)) continue;
    piece += line + "\n";
    if (piece.size() < kPiece) continue;
    kept.write(piece);
    piece.clear();
  }
  if (old.bad()) throw Failure("cannot read " + path + ": " + std::strerror(errno));
  kept.write(piece);
  kept.commit();
}

}  // namespace convoy::train
