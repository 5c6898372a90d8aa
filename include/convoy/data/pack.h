// Packs images of any source into one tar with an index: the preparation of Kumar et al. 2017,
// section 4.1. See docs/packing.md for what becomes of which image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace convoy::data {

enum class Chroma : std::uint8_t {
  half,  // 4:2:0, a quarter of the color samples
  full   // 4:4:4
};

struct PackProgress {
  std::uint64_t done = 0, total = 0;  // images of the source
  std::uint64_t bytes = 0;            // of the tar so far
  std::uint64_t bad = 0;
};

struct PackOptions {
  // This is an image folder; a tar, also of tars, also compressed with gzip; an IDX file of images;
  // or files of CIFAR's binary version, in this order. Which it is, their bytes say.
  std::vector<std::string> sources;
  std::string out;  // the tar to write; its index is beside it

  std::string below;  // tar: only what lies below this folder
  // IDX: the file of labels (empty: named like the images'). Folder and tar: a text file with lines
  // "NAME CLASS" for images that lie in no folder of their class. NAME is a path below the folder,
  // or below `below` in the tar; where no line names a folder, also the last part of one, if a
  // single image has it.
  std::string labels;
  // Folder and tar: a table of any number of labels for each image (LabelTable in
  // convoy/data/dataset.h; paths are those below the folder, or below `below` in the tar). Images
  // of a folder are then in the alphabetical order of paths, as its own reader has them.
  std::string label_table;
  std::string classes;    // a file with the names of the classes, in the order of labels
  std::size_t limit = 0;  // only so many images of the source; 0: all
  // Another order than the source's, fixed by this seed; not from a compressed tar.
  std::optional<std::uint64_t> shuffle;

  // Images with a longer short side are made smaller, keeping their shape; 0: none is.
  int short_side = 256;
  int quality = 90;  // 1 to 100, of images that are encoded anew
  Chroma chroma = Chroma::half;
  bool keep = false;  // the bytes of all images stay as they are

  int threads = 1;
  bool overwrite = false;
  // Called by one thread at a time; may throw to end the work.
  std::function<void(const PackProgress&)> tell;
};

struct PackResult {
  std::uint64_t records = 0;
  std::uint64_t unchanged = 0;     // of them: bytes (IDX, CIFAR: pixels) as in the source
  std::uint64_t bad = 0;           // left out; each is in the report
  std::uint64_t others = 0;        // files of the source that are no pictures by their names
  std::uint64_t unused_lines = 0;  // of the list of labels: no image has their names
  std::uint64_t renamed = 0;       // for a key that was taken; in the report, too
  std::uint64_t resumed = 0;       // images that an earlier, interrupted run had packed
  std::uint64_t classes = 0;
  std::uint64_t classes_by_first_folders = 0;  // of a tar: see IndexTarResult
  std::uint64_t labels = 0;                    // of all records together
  bool label_lists = false;                    // whether there are records with none or several
  std::uint64_t bytes = 0;                     // of the tar
  std::string index, report;                   // files beside it
};

// Writes out, out + ".index" and out + ".report.tsv". The same sources and options give the same
// bytes whatever the number of threads, with the same version of libvips. Needs libvips at run time
// unless `keep` is set or the source is IDX or CIFAR. Holds a name for every image of the source,
// and a few images for each thread.
//
// Until it is whole, the tar is out + ".partial"; after a kill or a failure (a full disk), the same
// call goes on from there. Throws UsageError naming what is wrong: a source that is none of the
// above, truncated, or without a good image; an image without a class, or that the table of labels
// lacks; `out` exists; a partial file of other sources or options (`overwrite` starts anew). Throws
// Failure when reading or writing breaks off.
PackResult pack(const PackOptions& options);

// Gives the version of libvips, which pack() loads when images have to be changed. Throws
// UsageError that names the package when it is not installed.
std::string image_library_version();

}  // namespace convoy::data
