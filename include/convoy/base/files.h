// Files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/descriptor.h"

namespace convoy {

// Gives the bytes of a file (or of a pipe, up to its end). Throws UsageError when there is none,
// when it may not be read, or when it is larger than `limit`; Failure when reading breaks off.
std::vector<std::byte> read_file(const std::string& path, std::size_t limit = std::size_t{1} << 40);
std::string read_text_file(const std::string& path, std::size_t limit = std::size_t{1} << 30);

// Writes all bytes to a file that is open, however often that takes. 0, or the errno of what
// failed; some may be written then.
int write_all(int file, std::span<const std::byte> bytes);

// This is a file being written beside its final name: written in pieces, then synced and renamed by
// commit(), which replaces a file of that name. Without commit() (an exception passes) nothing is
// left; a killed process leaves ".partial-<name>-<pid>-<n>". Throws Failure naming the file and
// what the system said (no space left on device), at the latest in commit(); after that it can't be
// written any more.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(const std::string& text);
  // Writes at a place of its own, whatever else is written; the end of what is written is the
  // file's.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Waits until what is written so far is on the disk, so that commit() has less to wait for.
  void sync();
  void commit();

 private:
  std::string path_;
  std::string partial_;
  Descriptor file_;
};

void write_file_atomically(const std::string& path, const std::string& text);

// Gives a file that was written under another name in the same folder its final one, where it
// replaces what was there; a power cut leaves one or the other. Throws Failure as AtomicFile does.
void move_into_place(const std::string& from, const std::string& to);

// This is what to do with a folder that is there already.
enum class Existing {
  refuse,  // UsageError
  replace  // in one step where the file system can exchange two names; where it can't (NFS), the
           // old folder is called "<path>.old" for a moment, and stays so if the process is killed
           // in it
};

// This is a folder being filled beside its final name: files are put into partial(), by this
// process or by others that see the folder, and commit() syncs every one of them and renames it to
// `path`. Without commit(), or if that throws, the temporary folder is removed and `path` is as it
// was. Leftovers of processes that were killed in between (".partial-*" beside it) are removed
// first; only one process may write in the parent folder at a time. Throws Failure as AtomicFile
// does.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::string& path, Existing existing = Existing::refuse);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::string& partial() const { return partial_; }
  void commit();  // once

 private:
  std::string path_;
  std::string parent_;
  std::string partial_;  // empty when nothing of it is left
};

// Does the same with a folder that a function fills, which is called with the path of the temporary
// one.
void write_folder_atomically(const std::string& path,
                             const std::function<void(const std::string& folder)>& fill,
                             Existing existing = Existing::refuse);

// Makes the folder and those above it. Throws Failure naming it.
void make_folders(const std::string& path);

}  // namespace convoy
