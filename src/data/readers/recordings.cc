#include "data/readers/recordings.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "data/packed/names.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

// What stands behind the last '_' of a name without its extension.
std::int64_t number_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  const std::size_t at = stem.rfind('_');
  if (at != stem.npos) {
    const char* const end = stem.data() + stem.size();
    std::int64_t number = 0;
    const auto [last, error] = std::from_chars(stem.data() + at + 1, end, number);
    if (error == std::errc() && last == end) return number;
  }
  throw UsageError(file.string() +
                   ": its name has no number; to choose recordings by number, names have to be "
                   "WORD_..._NUMBER.wav");
}

std::string text_of(const std::optional<Recordings::Numbers>& numbers) {
  if (!numbers) return "";
  return " of a number from " + std::to_string(numbers->first) + " to " +
         std::to_string(numbers->last);
}

}  // namespace

std::vector<Recording> list_recordings(const Recordings& which) {
  std::vector<Recording> recordings;
  try {
    for (const auto& entry : fs::directory_iterator(which.folder)) {
      const fs::path& path = entry.path();
      // A link that leads nowhere is an error as soon as it is read, not a recording less.
      std::error_code error;
      const bool broken = entry.is_symlink(error) && !entry.exists(error);
      if (!has_extension(path.native(), "wav") || !(broken || entry.is_regular_file())) continue;
      const std::string word = path.stem().string().substr(0, path.stem().string().find('_'));
      if (word.empty()) {
        throw UsageError(path.string() +
                         ": its name begins without a word; names have to be WORD_..._NUMBER.wav");
      }
      if (which.numbers) {
        const std::int64_t number = number_of(path);
        if (number < which.numbers->first || number > which.numbers->last) continue;
      }
      recordings.push_back({path.string(), word});
    }
  } catch (const fs::filesystem_error& error) {
    throw UsageError(which.folder + " on " + host_name() + ": " + error.code().message());
  }
  if (recordings.empty()) {
    throw UsageError(which.folder + ": no .wav file" + text_of(which.numbers) + " in this folder");
  }
  std::sort(recordings.begin(), recordings.end(),
            [](const Recording& a, const Recording& b) { return a.path < b.path; });
  return recordings;
}

}  // namespace convoy::data
