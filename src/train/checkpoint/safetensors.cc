#include "convoy/train/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "train/checkpoint/safetensors_header.h"

static_assert(std::endian::native == std::endian::little, "tensors are stored as they are");

namespace convoy::train {
namespace {

constexpr std::uint64_t kHeaderLimit = 100'000'000;
constexpr std::size_t kLengthBytes = 8;

struct Type {
  const char* name;
  std::size_t bytes;
};

// In the order in which the reference implementation places them: by size, largest first.
constexpr std::array kTypes = {Type{"I64", 8},  Type{"F64", 8}, Type{"F32", 4}, Type{"I32", 4},
                               Type{"BF16", 2}, Type{"F16", 2}, Type{"I16", 2}, Type{"I8", 1},
                               Type{"U8", 1},   Type{"BOOL", 1}};

std::size_t rank_of_type(const std::string& type) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (type == kTypes[i].name) return i;
  }
  throw UsageError("there is no type " + in_quotes(type) +
                   " here; the types are F64, F32, F16, BF16, I64, I32, I16, I8, U8 and BOOL");
}

// Nothing when it doesn't fit into 64 bits.
std::optional<std::uint64_t> bytes_of(const std::string& type,
                                      const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = size_of_type(type);
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

std::string json_text(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw UsageError("the name or text " + in_quotes(text) + " is not UTF-8");
  }
}

// The header's text; offsets of the tensors are counted from the end of it.
std::string make_header(const std::vector<TensorShape>& tensors,
                        const std::vector<std::uint64_t>& bytes, SafetensorsLayout& layout,
                        const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  const auto comma = [&header] {
    if (header.back() != '{') header += ',';
  };
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [name, value] : metadata) {
      comma();
      header += json_text(name) + ":" + json_text(value);
    }
    header += '}';
  }
  std::uint64_t offset = 0;
  layout.offsets.resize(tensors.size());
  for (const std::size_t i : layout.order) {
    const TensorShape& tensor = tensors[i];
    comma();
    header += json_text(tensor.name) + ":{\"dtype\":\"" + tensor.type + "\",\"shape\":[";
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      if (d > 0) header += ',';
      header += std::to_string(tensor.shape[d]);
    }
    layout.offsets[i] = offset;
    header += "],\"data_offsets\":[" + std::to_string(offset) + ",";
    offset += bytes[i];
    header += std::to_string(offset) + "]}";
  }
  layout.bytes = offset;
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

// The bytes of each tensor.
std::vector<std::uint64_t> check_tensors(const std::string& path,
                                         const std::vector<TensorShape>& tensors) {
  std::vector<std::uint64_t> all;
  std::set<std::string_view> names;
  for (const TensorShape& tensor : tensors) {
    const std::string which = path + ": tensor " + in_quotes(tensor.name);
    if (tensor.name == "__metadata__") throw UsageError(which + " has the name of the metadata");
    if (!names.insert(tensor.name).second) throw UsageError(which + " is there twice");
    const std::optional<std::uint64_t> bytes = bytes_of(tensor.type, tensor.shape);
    if (!bytes) throw UsageError(which + " has a negative or too large shape");
    all.push_back(*bytes);
  }
  return all;
}

}  // namespace

std::size_t size_of_type(const std::string& type) { return kTypes[rank_of_type(type)].bytes; }

SafetensorsLayout layout_of_safetensors(const std::string& path,
                                        const std::vector<TensorShape>& tensors,
                                        const std::map<std::string, std::string>& metadata) {
  const std::vector<std::uint64_t> bytes = check_tensors(path, tensors);
  SafetensorsLayout layout;
  for (std::size_t i = 0; i < tensors.size(); ++i) layout.order.push_back(i);
  std::sort(layout.order.begin(), layout.order.end(), [&tensors](std::size_t a, std::size_t b) {
    return std::make_tuple(rank_of_type(tensors[a].type), std::string_view(tensors[a].name)) <
           std::make_tuple(rank_of_type(tensors[b].type), std::string_view(tensors[b].name));
  });
  const std::string header = make_header(tensors, bytes, layout, metadata);
  if (header.size() > kHeaderLimit) {
    throw UsageError(path + ": the names and metadata take " + std::to_string(header.size()) +
                     " bytes; a safetensors file has room for " + std::to_string(kHeaderLimit));
  }
  const std::uint64_t length = header.size();
  layout.head.assign(reinterpret_cast<const char*>(&length), kLengthBytes);
  layout.head += header;
  layout.bytes += layout.head.size();
  for (std::uint64_t& offset : layout.offsets) offset += layout.head.size();
  return layout;
}

void write_safetensors(const std::string& path, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorShape> shapes;
  for (const TensorView& tensor : tensors)
    shapes.push_back({tensor.name, tensor.type, tensor.shape});
  const SafetensorsLayout layout = layout_of_safetensors(path, shapes, metadata);
  for (const TensorView& tensor : tensors) {
    const std::uint64_t needed = *bytes_of(tensor.type, tensor.shape);
    if (needed == tensor.bytes.size()) continue;
    throw UsageError(path + ": tensor " + in_quotes(tensor.name) + " has " +
                     std::to_string(tensor.bytes.size()) + " bytes, its shape and type need " +
                     std::to_string(needed));
  }
  AtomicFile file(path);
  file.write(layout.head);
  for (const std::size_t i : layout.order) file.write(tensors[i].bytes);
  file.commit();
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, const std::string& name)
    : name_(name), bytes_(bytes) {
  parse();
}

SafetensorsFile::SafetensorsFile(const std::string& path) : name_(path) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    const std::string reason = file.open() ? "it is not a regular file" : std::strerror(errno);
    throw UsageError("cannot read " + path + ": " + reason);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > 0) mapping_ = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapping_ == MAP_FAILED) {
    throw Failure("cannot map " + path + " into memory: " + std::strerror(errno));
  }
  bytes_ = {static_cast<const std::byte*>(mapping_), size};
  try {
    parse();
  } catch (...) {
    if (mapping_ != nullptr) ::munmap(mapping_, size);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (mapping_ != nullptr) ::munmap(mapping_, bytes_.size());
}

void SafetensorsFile::let_go(std::span<const std::byte> bytes) const {
  if (mapping_ == nullptr) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = static_cast<std::size_t>(bytes.data() - bytes_.data()) / page * page;
  const auto end = static_cast<std::size_t>(bytes.data() + bytes.size() - bytes_.data());
  ::madvise(static_cast<std::byte*>(mapping_) + begin, end - begin, MADV_DONTNEED);
}

void SafetensorsFile::parse() {
  const auto bad = [this](const std::string& problem) {
    return UsageError(name_ + " is not a valid safetensors file: " + problem);
  };
  if (bytes_.size() < kLengthBytes) {
    throw bad("it has " + std::to_string(bytes_.size()) + " bytes, fewer than its length field");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes_.data(), kLengthBytes);
  if (length > kHeaderLimit) {
    throw bad("its header claims " + std::to_string(length) + " bytes; the limit is " +
              std::to_string(kHeaderLimit));
  }
  if (length > bytes_.size() - kLengthBytes) {
    throw bad("it ends inside its header of " + std::to_string(length) + " bytes: truncated");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes, length);
  SafetensorsHeader header = parse_safetensors_header(text, name_);
  const std::span<const std::byte> data = bytes_.subspan(kLengthBytes + length);

  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  std::uint64_t expected = 0;
  for (TensorEntry& entry : header.tensors) {
    const std::string which = "tensor " + in_quotes(entry.name);
    std::optional<std::uint64_t> bytes;
    try {
      bytes = bytes_of(entry.type, entry.shape);
    } catch (const UsageError& error) {
      throw bad(which + ": " + error.what());
    }
    if (!bytes) throw bad(which + " has a shape that is too large");
    if (entry.begin != expected) {
      throw bad(which + " begins at " + std::to_string(entry.begin) + ", but the one before it " +
                "ends at " + std::to_string(expected));
    }
    if (entry.end < entry.begin || entry.end - entry.begin != *bytes) {
      throw bad(which + " has the offsets " + std::to_string(entry.begin) + " to " +
                std::to_string(entry.end) + ", but its shape and type need " +
                std::to_string(*bytes) + " bytes");
    }
    if (entry.end > data.size()) {
      throw bad(which + " ends at " + std::to_string(entry.end) + ", but there are only " +
                std::to_string(data.size()) + " bytes: truncated");
    }
    expected = entry.end;
    tensors_.push_back({std::move(entry.name), std::move(entry.type), std::move(entry.shape),
                        data.subspan(entry.begin, *bytes)});
  }
  if (expected != data.size()) {
    throw bad(std::to_string(data.size() - expected) + " bytes follow the last tensor");
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
  metadata_ = std::move(header.metadata);
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace convoy::train
