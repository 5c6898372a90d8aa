// A set of labeled examples as a file format holds them: what readers implement.
//
// A reader hands out records: the bytes of one example as they are stored, with what is needed to
// decode them. Decoding and augmentation are the loader's (convoy/data/loader.h), so every format,
// on disk or in memory, shares one path from bytes to batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace convoy::data {

class Peers;  // convoy/data/peers.h

// Channels, height and width of an image; features without geometry are {n, 1, 1}.
struct Shape {
  int channels = 0;
  int height = 0;
  int width = 0;

  std::size_t elements() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) *
           static_cast<std::size_t>(width);
  }
  bool operator==(const Shape&) const = default;
};

enum class Encoding : std::uint8_t {
  planar_u8,       // [channels][height][width] bytes
  interleaved_u8,  // [height][width][channels] bytes
  planar_f32,      // [channels][height][width] floats of this machine
  jpeg,
  png
};

// This is one example. The bytes belong to the dataset or to the scratch memory it was given.
struct Record {
  std::span<const std::byte> bytes;
  Encoding encoding = Encoding::planar_u8;
  Shape shape = {};  // of the first three encodings; a compressed image says its own
  std::int64_t label = 0;
};

// Random access to the records 0 .. size()-1 of one data set. Immutable once made, so every member
// may be called from any thread at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;

  // Gives the names of the labels 0, 1, ...; digits where the format has no names.
  virtual const std::vector<std::string>& classes() const = 0;

  // Reads record i. Its bytes stay valid until `scratch` changes or the dataset is destroyed; a
  // dataset in memory leaves scratch alone. i < size(). Throws Failure naming the file when it
  // can't be read (it has vanished or shrunk since), UsageError when what is read is damaged.
  virtual Record read(std::size_t i, std::vector<std::byte>& scratch) const = 0;

  // Gives what to call record i in messages: its file, or "train-images-idx3-ubyte.gz[17]".
  virtual std::string key(std::size_t i) const = 0;

  // Gives the label alone, without reading the record.
  virtual std::int64_t label(std::size_t i) const = 0;

  // Says whether records are pictures, so that a picture in a file may be asked about in the place
  // of one.
  virtual bool pictures() const { return true; }

  // Says whether records have lists of labels: any number each, or none. label() is then the first
  // of them, -1 where there is none.
  virtual bool label_lists() const { return false; }
  // Gives the labels of record i, each once, without reading it.
  virtual std::vector<std::int64_t> labels(std::size_t i) const { return {label(i)}; }

  // Gives a hash of what decides which example is number i: names, sizes and labels, not
  // necessarily all pixels. Ranks compare it to be sure that they see the same data.
  virtual std::uint64_t fingerprint() const = 0;
};

// The readers of files. Each checks the whole structure at once and throws UsageError naming the
// file and what is wrong: missing, truncated, of another format, or a label outside the classes.

// IDX (MNIST): images of unsigned bytes in 3 dimensions (count, height, width) or 4 (count,
// channels, height, width), and as many labels. Either file may be gzip-compressed, whatever its
// name. Everything is held in memory.
std::shared_ptr<Dataset> open_idx(const std::string& images, const std::string& labels);

// The binary version of CIFAR-10 (1 label byte) or CIFAR-100 (coarse and fine label; the fine one
// counts), 3 x 32 x 32 bytes each, of several files in this order. Held in memory. `class_names`
// is the file of names beside them (batches.meta.txt, fine_label_names.txt), or empty.
enum class CifarKind { cifar10, cifar100 };
std::shared_ptr<Dataset> open_cifar(CifarKind kind, const std::vector<std::string>& files,
                                    const std::string& class_names = "");

// Opens a folder with one subfolder per class, in alphabetical order of names; its JPEG and PNG
// files at any depth (.jpg, .jpeg, .png in any case) in alphabetical order of paths. Only names are
// held. A class folder without images is an error that names it, as is one that is a broken link.
// Links are followed; a broken one to an image is a bad record. Others are left out (remarks.h).
//
// With peers, which all open the folder, the first of them walks over it and tells the others; each
// asks for the size of its share of the files, and of a few of everybody's, to be sure that all see
// the same. Collective; errors are the same on all ranks.
std::shared_ptr<Dataset> open_image_folder(const std::string& folder);
std::shared_ptr<Dataset> open_image_folder(const std::string& folder, Peers& peers);

// Images with any number of labels each. `labels` is a text file with a line for each image: its
// path below the folder, a tab, and the names of its classes with commas between them; nothing
// behind the path for an image without labels. `class_names` is a file of the names of all classes,
// one a line, in the order of labels; empty: those in the table, in alphabetical order.
struct LabelTable {
  std::string labels;
  std::string class_names;
};

// Opens the JPEG and PNG files of a folder at any depth, in alphabetical order of paths, with the
// labels of a table; otherwise as above. The first peer reads the table. Throws UsageError naming
// the table and its line, or the image: a line of another form, a second one for an image, an image
// that is not there or has no line, a class that is unknown or twice in a line; no class at all.
std::shared_ptr<Dataset> open_image_folder(const std::string& folder, const LabelTable& table,
                                           Peers& peers);

}  // namespace convoy::data
