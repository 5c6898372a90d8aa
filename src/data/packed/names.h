// Names of members, keys of records, names of classes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::data {

// WebDataset passes over what stands in folders of this kind.
inline constexpr std::string_view kClassesMember = "__convoy__/classes.txt";
inline constexpr std::string_view kAboutMember = "__convoy__/about.txt";

// "a/b.c.JPG" -> {"a/b", "c.jpg"}: the last part is cut at its first dot, the extension in small
// letters, as WebDataset does it.
struct SampleName {
  std::string_view stem;
  std::string extension;
};
SampleName split_sample_name(std::string_view member);

// Whether the last extension is this one, which is in small letters: "wav". Names that begin with a
// dot have none.
bool has_extension(std::string_view member, std::string_view extension);
// By the last extension: .jpg, .jpeg, .png. Names that begin with a dot are not meant.
bool is_image_name(std::string_view member);
// By all extensions of pictures, whether they can be read or not.
bool is_picture_name(std::string_view member);
// Whether the last extension is the only one: "1.jpg" is the sample 1, "1.mask.jpg" belongs to it.
bool is_plain_name(std::string_view member);

// "./a//b" -> "a/b": without empty parts, "." and "..". Control characters become '_'.
std::string plain_path(std::string_view path);

// The last folder in a path, or nothing: "train/cat/1.jpg" -> "cat".
std::string_view folder_of(std::string_view path);

// How many classes there would be if the first folder of each path named its class, below what all
// paths have in common, in place of the last one; 0 where both tell the same images apart. A folder
// goes by the first, a tar by the last.
std::size_t classes_by_first_folders(const std::vector<std::string>& paths);

// Without the mark of UTF-8 that some editors begin a file with.
std::string_view without_mark(std::string_view text);

// One name a line; ends of lines may be those of Windows. Throws UsageError naming the file for
// empty or repeated names.
std::vector<std::string> parse_class_names(std::string_view text, const std::string& file);
std::vector<std::string> read_class_names(const std::string& file);

// Sorted; every name once.
std::vector<std::string> distinct(std::vector<std::string> names);

// Which of the sorted or given names it is; -1 if none. For many look-ups use the order of
// distinct().
class ClassNumbers {
 public:
  explicit ClassNumbers(const std::vector<std::string>& names);
  std::int64_t operator[](std::string_view name) const;

 private:
  std::vector<std::pair<std::string, std::int64_t>> sorted_;
};

}  // namespace convoy::data
