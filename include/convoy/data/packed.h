// Packed data sets: the records of a tar file, found through a binary index beside it.
//
// FILE.tar is an ordinary tar, for `tar`, Python and WebDataset; FILE.tar.index says where each
// record lies, its labels and its checksum (docs/formats/packed.md). Convoy's form of the data
// files of Kumar et al. 2017, section 4.1. They are made by pack() (convoy/data/pack.h), or by
// index_tar() for a tar that exists already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/data/dataset.h"
#include "convoy/data/loadable_dataset.h"

namespace convoy::data {

// Told now and then how far long work has come, by one thread at a time. May throw to end the work.
using Tell = std::function<void(double done, double total)>;

// These are several packed files as one data set: the records of the first, then those of the
// second, .... All files stay open: the process's limit of open files is raised where it is too low
// for that (RLIMIT_NOFILE, up to the hard one). The indexes are held in memory (about 48 bytes a
// record, its name, and 4 bytes for each label where a record can have several); records are read
// from the files when they are asked for, and their checksums compared each time. If one file has
// lists of labels, the data set has.
class PackedFiles final : public LoadableDataset {
 public:
  // Paths of .tar files; a folder stands for all its .tar files in alphabetical order. Throws
  // UsageError naming the file: it or its index is missing, damaged, truncated, of a newer version,
  // or of another tar; the files have different classes; there is no record; there are
  // more files than the process may open.
  explicit PackedFiles(const std::vector<std::string>& files);
  ~PackedFiles() override;

  std::size_t size() const override;
  const std::vector<std::string>& classes() const override;
  // Throws Failure when the file can't be read or has shrunk, UsageError naming the record when it
  // is damaged there, another than the one that was indexed, or larger than any picture (1 GiB).
  Record read(std::size_t i, std::vector<std::byte>& scratch) const override;
  // "train.tar:n01440764/n01440764_10026.jpg", printable()
  std::string key(std::size_t i) const override;
  std::int64_t label(std::size_t i) const override;
  bool label_lists() const override { return label_lists_; }
  std::vector<std::int64_t> labels(std::size_t i) const override;
  std::uint64_t fingerprint() const override;

  std::uint64_t length(std::size_t i) const override;
  // The files are read in ascending order, and checksums compared as in read().
  void load(Range records, std::span<std::byte> to) const override;
  Record record(std::size_t i, std::span<const std::byte> bytes) const override;

 private:
  struct File;
  struct Place {
    const File* file;
    std::size_t record;  // in it
  };
  Place find(std::size_t i) const;

  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::size_t> ends_;  // the records up to and with each file
  bool label_lists_ = false;
};

// This is what an index says about a tar.
struct PackedSummary {
  std::string file;
  std::uint64_t tar_bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t record_bytes = 0;                       // of all records together
  std::uint64_t smallest = 0, median = 0, largest = 0;  // bytes of a record
  std::vector<std::string> classes;
  std::vector<std::uint64_t> class_records;  // with each label
  bool label_lists = false;                  // whether records have any number of labels
  std::uint64_t labels = 0;                  // of all records together
  std::uint64_t unlabeled = 0;               // records without any
  std::uint64_t most_labels = 0;             // of a record
  std::string about;  // how it was packed: lines "name = value", empty if it was not
};
PackedSummary inspect_packed(const std::string& file);

// This is one line of the table in an index.
struct PackedRecord {
  std::string key;  // the member's name in the tar
  std::uint64_t offset = 0, length = 0;
  std::int64_t label = 0;            // the first of them, or -1
  std::vector<std::int64_t> labels;  // ascending
  std::uint64_t checksum = 0;        // XXH3-64
};
void list_packed(const std::string& file, const std::function<void(const PackedRecord&)>& each);

// Makes FILE.tar.index for a tar with JPEG and PNG images, by WebDataset's conventions: KEY is what
// comes before the first dot of a member's name without folders, the rest is its extension. A
// record is a KEY.jpg, KEY.jpeg or KEY.png (in any case); KEY.mask.png is another thing about the
// same sample. A record's label stands in the member KEY.cls beside it, any number of them as a
// list in KEY.cls.json; or else its class is the folder that holds it, and classes are numbered in
// alphabetical order. Throws UsageError naming tar and member: not a tar, compressed, truncated,
// several tars one after another, no image, two members of one name, an image without a class,
// labels none of which has an image beside it, a label outside of the classes or twice in a list.
struct IndexTarOptions {
  std::string classes;  // a file with the names of the classes, one a line, in the order of labels
  Tell tell;            // in bytes
};
struct IndexTarResult {
  std::string index;  // the file that was written
  std::uint64_t records = 0;
  std::uint64_t classes = 0;
  std::uint64_t labels = 0;       // of all records together
  bool label_lists = false;       // whether there are records with none or several
  std::uint64_t others = 0;       // files in the tar that are neither records nor labels
  std::uint64_t auxiliary = 0;    // of them: images with a second extension
  std::uint64_t lone_labels = 0;  // of them: labels without an image beside them
  std::uint64_t links = 0;        // of them: links with the name of an image, which have no bytes
  // This is how many classes there would be by the first folders of images, as of a folder, below
  // what all have in common; 0 where these are the same classes, or labels stand beside images.
  std::uint64_t classes_by_first_folders = 0;
};
IndexTarResult index_tar(const std::string& tar, const IndexTarOptions& options = {});

// Compares every byte of a packed file and its index with the checksums.
struct VerifyOptions {
  bool decode = false;  // also decode every record
  int threads = 1;
  Tell tell;  // in bytes
};
struct PackedProblem {
  std::string where;                     // "index", "tar", "record", "between records", "end"
  std::string key;                       // of the record; empty where there is none
  std::uint64_t offset = 0, length = 0;  // the bytes in question, in the tar
  std::string what;
};
struct VerifyResult {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;              // of the tar, all compared
  std::vector<PackedProblem> problems;  // in the order of the file
};
// Problems are results; throws UsageError when a file is missing, Failure when one can't be read.
VerifyResult verify_packed(const std::string& tar, const VerifyOptions& options = {});

}  // namespace convoy::data
