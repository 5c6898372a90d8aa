#include "data/tar/cursor.h"

namespace convoy::data {
namespace {

constexpr std::size_t kDeepest = 4;
constexpr std::string_view kSuffix = ".tar";

}  // namespace

TarCursor::TarCursor(ByteStream& source, const std::string& name, bool nested)
    : name_(name), nested_(nested) {
  levels_.push_back({std::make_unique<TarReader>(source, name), "", 0});
}

bool TarCursor::next(TarMember& member) {
  while (true) {
    Level& level = levels_.back();
    if (!level.reader->next(member)) {
      if (levels_.size() == 1) return false;
      levels_.pop_back();
      continue;
    }
    member.name = level.prefix + member.name;
    member.offset += level.offset;
    if (!nested_ || member.kind != TarMember::Kind::file || !member.name.ends_with(kSuffix) ||
        levels_.size() == kDeepest) {
      return true;
    }
    const std::string prefix = member.name.substr(0, member.name.size() - kSuffix.size()) + "/";
    levels_.push_back({std::make_unique<TarReader>(*level.reader, name_ + ":" + member.name),
                       prefix, member.offset});
  }
}

}  // namespace convoy::data
