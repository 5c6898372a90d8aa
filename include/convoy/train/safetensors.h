// The safetensors file format: an 8-byte little-endian length, a JSON header, then raw tensors.
// Torch-free; convoy/train/state.h has the tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace convoy::train {

// This is one tensor of a file: contiguous, row-major, little-endian. `type` is the format's own
// name: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL.
struct TensorView {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// Says how many bytes an element has; throws UsageError for a type that is not in the list above.
std::size_t size_of_type(const std::string& type);

// This is a tensor that is yet to be written.
struct TensorShape {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
};

// Says where the file that write_safetensors makes of these tensors has what.
struct SafetensorsLayout {
  std::string head;                    // the bytes before the first tensor
  std::vector<std::size_t> order;      // of the tensors in the file, by their place in the argument
  std::vector<std::uint64_t> offsets;  // in the file, by the place in the argument
  std::uint64_t bytes = 0;             // of the file
};
// Throws UsageError as write_safetensors does.
SafetensorsLayout layout_of_safetensors(const std::string& path,
                                        const std::vector<TensorShape>& tensors,
                                        const std::map<std::string, std::string>& metadata = {});

// Writes the file whole or not at all, byte for byte as the reference implementation does: tensors
// in the order of their types (I64, F64, F32, I32, BF16, F16, I16, I8, U8, BOOL), then of their
// names, so each begins at a multiple of its element size. Metadata are strings by name. Throws
// UsageError for a duplicate name, one that is not UTF-8 or a size that doesn't fit its shape,
// Failure when the file can't be written.
void write_safetensors(const std::string& path, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

// This is a file mapped into memory; the views live as long as this object. Every offset, shape and
// size is checked when the file is opened, as the format demands (no holes, no overlap, header at
// most 100 MB, nothing behind the last tensor); throws UsageError naming the file and the tensor.
// In a file that another program wrote, a tensor may begin at any byte: copy it before use as
// numbers.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  // Reads bytes in memory likewise, which must outlive this object; `name` stands in messages.
  SafetensorsFile(std::span<const std::byte> bytes, const std::string& name);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::vector<TensorView>& tensors() const { return tensors_; }  // in the order of offsets
  const TensorView* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Doesn't count bytes of a view, which have been used and can be read from the file again, as
  // memory of this process any longer. Any thread may call it.
  void let_go(std::span<const std::byte> bytes) const;
  // Says where in the file one of its tensors begins.
  std::uint64_t offset_of(const TensorView& tensor) const {
    return static_cast<std::uint64_t>(tensor.bytes.data() - bytes_.data());
  }

 private:
  void parse();

  std::string name_;
  std::span<const std::byte> bytes_;
  void* mapping_ = nullptr;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
  std::unordered_map<std::string, std::size_t> index_;  // of tensors_, by name
};

}  // namespace convoy::train
