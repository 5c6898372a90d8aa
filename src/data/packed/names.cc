#include "data/packed/names.h"

#include <algorithm>
#include <array>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::data {
namespace {

constexpr std::array<std::string_view, 19> kPictures = {
    "jpg",  "jpeg", "jpe", "jfif", "mpo",  "png",  "webp", "gif", "bmp", "tif",
    "tiff", "jp2",  "j2k", "jxl",  "heic", "heif", "avif", "ppm", "pgm"};
constexpr std::size_t kMostNameBytes = std::size_t{1} << 30;  // bytes in a file of names

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string last_extension(std::string_view member) {
  const std::string_view name = last_part(member);
  const std::size_t dot = name.rfind('.');
  return dot == name.npos || dot == 0 ? "" : lower(name.substr(dot + 1));
}

bool hidden(std::string_view path) { return last_part(path).starts_with('.'); }

}  // namespace

SampleName split_sample_name(std::string_view member) {
  const std::size_t name = member.size() - last_part(member).size();
  const std::size_t dot = member.find('.', name);
  if (dot == member.npos) return {member, ""};
  return {member.substr(0, dot), lower(member.substr(dot + 1))};
}

bool has_extension(std::string_view member, std::string_view extension) {
  return !hidden(member) && last_extension(member) == extension;
}

bool is_image_name(std::string_view member) {
  const std::string extension = last_extension(member);
  return !hidden(member) && (extension == "jpg" || extension == "jpeg" || extension == "png");
}

bool is_picture_name(std::string_view member) {
  const std::string extension = last_extension(member);
  return !hidden(member) &&
         std::find(kPictures.begin(), kPictures.end(), extension) != kPictures.end();
}

bool is_plain_name(std::string_view member) {
  const std::string_view name = last_part(member);
  return name.find('.') == name.rfind('.');
}

std::string plain_path(std::string_view path) {
  std::string plain;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (part.empty() || part == "." || part == "..") continue;
    if (!plain.empty()) plain += '/';
    for (const char c : part) plain += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '_' : c;
  }
  return plain;
}

std::string_view folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) return {};
  const std::string_view folder = last_part(path.substr(0, slash));
  return folder == "." || folder == ".." ? std::string_view() : folder;
}

std::size_t classes_by_first_folders(const std::vector<std::string>& paths) {
  if (paths.empty()) return 0;
  std::string_view common = paths.front();
  common = common.substr(0, common.rfind('/') + 1);
  for (const std::string& path : paths) {
    while (!path.starts_with(common)) {
      common.remove_suffix(1);
      common = common.substr(0, common.rfind('/') + 1);
    }
  }
  std::map<std::string_view, std::string_view> last_of, first_of;
  bool same = true;
  for (const std::string& path : paths) {
    const std::string_view below = std::string_view(path).substr(common.size());
    const std::size_t slash = below.find('/');
    const std::string_view first =
        slash == below.npos ? below.substr(0, 0) : below.substr(0, slash);
    const std::string_view last = folder_of(path);
    const bool same_last = last_of.emplace(first, last).first->second == last;
    const bool same_first = first_of.emplace(last, first).first->second == first;
    same = same && same_last && same_first;
  }
  return same ? 0 : last_of.size();
}

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::vector<std::string> parse_class_names(std::string_view text, const std::string& file) {
  std::vector<std::string> names;
  text = without_mark(text);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view name = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (name.ends_with('\r')) name.remove_suffix(1);
    if (name.empty() && text.find_first_not_of("\r\n") == text.npos) break;
    if (name.empty() || name.find('\0') != name.npos) {
      throw UsageError(file + ": line " + std::to_string(names.size() + 1) +
                       " is no name of a class");
    }
    names.emplace_back(name);
  }
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) throw UsageError(file + ": the class '" + *twice + "' is there twice");
  if (names.empty()) throw UsageError(file + ": no names of classes");
  return names;
}

std::vector<std::string> read_class_names(const std::string& file) {
  return parse_class_names(read_text_file(file, kMostNameBytes), file);
}

std::vector<std::string> distinct(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

ClassNumbers::ClassNumbers(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    sorted_.emplace_back(names[i], static_cast<std::int64_t>(i));
  }
  std::sort(sorted_.begin(), sorted_.end());
}

std::int64_t ClassNumbers::operator[](std::string_view name) const {
  const auto at = std::lower_bound(sorted_.begin(), sorted_.end(), name,
                                   [](const auto& a, std::string_view b) { return a.first < b; });
  return at != sorted_.end() && at->first == name ? at->second : -1;
}

}  // namespace convoy::data
