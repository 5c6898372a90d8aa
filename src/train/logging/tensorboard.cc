// Event files: TFRecords of protobuf messages tensorflow.Event, which are few and small enough to
// be written out by hand. Numbers in comments are the messages' field numbers.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/append.h"
#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "convoy/train/metrics.h"

static_assert(std::endian::native == std::endian::little, "numbers are stored as they are");

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

class Message {
 public:
  Message& varint(int field, std::uint64_t value) {
    key(field, 0);
    base128(value);
    return *this;
  }
  Message& fixed(int field, double value) {
    key(field, 1);
    raw(&value, sizeof value);
    return *this;
  }
  Message& fixed(int field, float value) {
    key(field, 5);
    raw(&value, sizeof value);
    return *this;
  }
  Message& bytes(int field, const std::string& value) {
    key(field, 2);
    base128(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.bytes_); }
  const std::string& text() const { return bytes_; }

 private:
  void key(int field, int wire_type) {
    base128(static_cast<std::uint64_t>(field << 3 | wire_type));
  }
  void base128(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void raw(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
  }

  std::string bytes_;
};

// TFRecord stores checksums of bytes that may hold checksums themselves, therefore masked.
void append_checksum(std::string& record, std::size_t from) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(record).subspan(from)));
  const std::uint32_t masked = (crc >> 15 | crc << 17) + 0xa282ead8u;
  record.append(reinterpret_cast<const char*>(&masked), sizeof masked);
}

std::string record_of(const Message& message) {
  const std::uint64_t size = message.text().size();
  std::string record(reinterpret_cast<const char*>(&size), sizeof size);
  append_checksum(record, 0);
  record += message.text();
  append_checksum(record, sizeof size + 4);
  return record;
}

Message event() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return Message().fixed(1, now.count());  // wall_time
}

Message event(std::int64_t step) {
  return event().varint(2, static_cast<std::uint64_t>(step));  // step
}

constexpr std::string_view kEventsPrefix = "events.out.tfevents.";

// TensorBoard reads the files of a folder in the order of their names, and a resumed run after the
// one it goes on from: later than any that is there, whatever the clocks of two machines say.
std::int64_t time_for_name(const std::string& folder) {
  std::int64_t time = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename().string();
    if (!name.starts_with(kEventsPrefix)) continue;
    const std::int64_t other = std::atoll(name.c_str() + kEventsPrefix.size());
    // Ten digits, as all names have; a stray name must not push the time beyond.
    if (other >= time && other < 9'999'999'999) time = other + 1;
  }
  return time;
}

}  // namespace

TensorBoardFile::TensorBoardFile(const std::string& folder, std::int64_t resumed_at) {
  make_folders(folder);
  char time[24];
  std::snprintf(time, sizeof time, "%010lld", static_cast<long long>(time_for_name(folder)));
  path_ = (fs::path(folder) / (std::string(kEventsPrefix) + time + "." + host_name() + "." +
                               std::to_string(::getpid())))
              .string();
  file_ =
      Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (!file_.open()) throw Failure("cannot write " + path_ + ": " + std::strerror(errno));
  try {
    std::string records = record_of(event().bytes(3, "brain.Event:2"));  // file_version
    if (resumed_at >= 0) {
      // session_log with status START: forget this step and later ones.
      records += record_of(event(resumed_at + 1).message(7, Message().varint(1, 1)));
    }
    append_whole(file_.get(), records, path_);
  } catch (...) {
    ::unlink(path_.c_str());
    throw;
  }
}

void TensorBoardFile::add(std::int64_t step,
                          const std::vector<std::pair<std::string, double>>& scalars) {
  Message summary;
  for (const auto& [tag, value] : scalars) {
    // value: tag, simple_value
    summary.message(1, Message().bytes(1, tag).fixed(2, static_cast<float>(value)));
  }
  append_whole(file_.get(), record_of(event(step).message(5, summary)), path_);
}

void TensorBoardFile::add_text(std::int64_t step, const std::string& tag, const std::string& text) {
  // TensorProto: dtype DT_STRING, tensor_shape with one dim of size 1, string_val.
  const Message shape = Message().message(2, Message().varint(1, 1));
  const Message tensor = Message().varint(1, 7).message(2, shape).bytes(8, text);
  // SummaryMetadata: plugin_data with plugin_name, data_class TENSOR.
  const Message metadata = Message().message(1, Message().bytes(1, "text")).varint(4, 2);
  const Message value = Message().bytes(1, tag).message(8, tensor).message(9, metadata);
  append_whole(file_.get(), record_of(event(step).message(5, Message().message(1, value))), path_);
}

}  // namespace convoy::train
