#include "data/packed/index.h"

#include <algorithm>
#include <array>
#include <limits>

#include "convoy/base/checksum.h"
#include "data/bytes.h"
#include "data/packed/numbers.h"

namespace convoy::data {
namespace {

// Not text, and damaged by whatever translates ends of lines.
constexpr std::array<unsigned char, 8> kMagic = {0x89, 'C', 'V', 'I', 'X', '\r', '\n', 0x1a};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 128;
constexpr std::size_t kEntryBytes = 48;
// Where the header's fields stand.
constexpr std::size_t kAtVersion = 8, kAtHeaderBytes = 12, kAtRecords = 16, kAtKeyBytes = 24,
                      kAtClasses = 32, kAtClassBytes = 40, kAtAboutBytes = 48, kAtTarBytes = 56,
                      kAtTail = 64, kAtBody = 72, kAtReserved = 80, kAtSeal = 120;
// And an entry's.
constexpr std::size_t kAtOffset = 0, kAtLength = 8, kAtChecksum = 16, kAtGap = 24, kAtKeyEnd = 32,
                      kAtLabel = 40, kAtFlags = 44;

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw IndexError(name + ": " + what);
}

// Magic, checksum and version, in an order that tells damage from another version.
void check_header(std::span<const std::byte> bytes, const std::string& name) {
  const auto same = [](std::byte a, unsigned char b) { return a == std::byte{b}; };
  if (bytes.size() < kMagic.size() ||
      !std::equal(kMagic.begin(), kMagic.end(), bytes.begin(),
                  [&](unsigned char b, std::byte a) { return same(a, b); })) {
    fail(name, "not an index of Convoy, or its first bytes are damaged");
  }
  if (bytes.size() < kHeaderBytes) fail(name, "truncated: it ends inside of the header");
  if (get<std::uint64_t>(bytes, kAtSeal) != xxh3(bytes.first(kAtSeal))) {
    fail(name, "damaged: the header's checksum differs; make the index anew with convoy index");
  }
  const auto version = get<std::uint32_t>(bytes, kAtVersion);
  if (version != kVersion) {
    throw UsageError(name + ": an index of version " + std::to_string(version) +
                     ", while this Convoy reads " + std::to_string(kVersion) +
                     ": take a newer Convoy, or make the index anew with convoy index");
  }
  bool zero = get<std::uint32_t>(bytes, kAtHeaderBytes) == kHeaderBytes;
  for (std::size_t i = kAtReserved; i < kAtSeal; ++i) zero = zero && bytes[i] == std::byte{0};
  if (!zero) fail(name, "the header has fields that version 1 does not have");
}

}  // namespace

std::string index_path(const std::string& tar) { return tar + ".index"; }

Index::Index(std::vector<std::byte> bytes, const std::string& name) : bytes_(std::move(bytes)) {
  const std::span<const std::byte> all(bytes_);
  check_header(all, name);
  const std::span<const std::byte> body = all.subspan(kHeaderBytes);
  // Each part has to fit into what the parts before it leave: sums can't overflow.
  std::size_t left = body.size();
  const auto part = [&](std::uint64_t count, std::size_t each) {
    if (count > left / each) fail(name, "truncated, or its header is wrong: the parts don't fit");
    left -= static_cast<std::size_t>(count) * each;
    return static_cast<std::size_t>(count) * each;
  };
  const std::size_t entry_bytes = part(get<std::uint64_t>(all, kAtRecords), kEntryBytes);
  const std::size_t key_bytes = part(get<std::uint64_t>(all, kAtKeyBytes), 1);
  const std::size_t class_bytes = part(get<std::uint64_t>(all, kAtClassBytes), 1);
  const std::size_t about_bytes = part(get<std::uint64_t>(all, kAtAboutBytes), 1);
  if (left != 0) fail(name, std::to_string(left) + " bytes follow the index");
  if (get<std::uint64_t>(all, kAtBody) != xxh3(body)) {
    fail(name, "damaged: its checksum differs; make the index anew with convoy index");
  }
  count_ = entry_bytes / kEntryBytes;
  entries_ = body.first(entry_bytes);
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  keys_ = text.substr(entry_bytes, key_bytes);
  header_.about = text.substr(entry_bytes + key_bytes + class_bytes, about_bytes);
  header_.tar_bytes = get<std::uint64_t>(all, kAtTarBytes);
  header_.tail_checksum = get<std::uint64_t>(all, kAtTail);
  std::string_view names = text.substr(entry_bytes + key_bytes, class_bytes);
  while (!names.empty()) {
    const std::size_t end = names.find('\0');
    if (end == names.npos) fail(name, "the last class name has no end");
    header_.classes.emplace_back(names.substr(0, end));
    names.remove_prefix(end + 1);
  }
  if (header_.classes.size() != get<std::uint64_t>(all, kAtClasses)) {
    fail(name, std::to_string(header_.classes.size()) + " class names, where the header says " +
                   std::to_string(get<std::uint64_t>(all, kAtClasses)));
  }
  check_entries(name);
  fingerprint_ = xxh3(body.first(entry_bytes + key_bytes + class_bytes));
}

void Index::check_entries(const std::string& name) const {
  std::uint64_t end = 0, key_end = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const std::span<const std::byte> entry = entries_.subspan(i * kEntryBytes, kEntryBytes);
    const auto offset = get<std::uint64_t>(entry, kAtOffset);
    const auto length = get<std::uint64_t>(entry, kAtLength);
    const auto this_key_end = get<std::uint64_t>(entry, kAtKeyEnd);
    const auto label = get<std::uint32_t>(entry, kAtLabel);
    const auto wrong = [&](const std::string& what) {
      fail(name, "record " + std::to_string(i) + " " + what);
    };
    if (offset < end) wrong("overlaps the one before it");
    if (offset > header_.tar_bytes || length > header_.tar_bytes - offset) {
      wrong("lies at bytes " + std::to_string(offset) + " to " + std::to_string(offset) + " + " +
            std::to_string(length) + ", outside of the tar's " + std::to_string(header_.tar_bytes));
    }
    if (this_key_end < key_end || this_key_end > keys_.size())
      wrong("has a key outside of the keys");
    if (label >= header_.classes.size()) {
      wrong("has the label " + std::to_string(label) + "; there are " +
            std::to_string(header_.classes.size()) + " classes");
    }
    if (get<std::uint32_t>(entry, kAtFlags) != 0) wrong("has flags that version 1 does not have");
    end = offset + length;
    key_end = this_key_end;
  }
  if (key_end != keys_.size()) fail(name, "there are keys of no record");
}

IndexEntry Index::operator[](std::size_t i) const {
  const std::span<const std::byte> entry = entries_.subspan(i * kEntryBytes, kEntryBytes);
  const std::size_t key_begin =
      i == 0 ? 0 : get<std::uint64_t>(entries_, (i - 1) * kEntryBytes + kAtKeyEnd);
  const std::size_t key_end = get<std::uint64_t>(entry, kAtKeyEnd);
  return {keys_.substr(key_begin, key_end - key_begin),
          get<std::uint64_t>(entry, kAtOffset),
          get<std::uint64_t>(entry, kAtLength),
          get<std::uint64_t>(entry, kAtChecksum),
          get<std::uint64_t>(entry, kAtGap),
          get<std::uint32_t>(entry, kAtLabel)};
}

std::uint64_t Index::gap_begin(std::size_t i) const {
  if (i == 0) return 0;
  const std::size_t at = (i - 1) * kEntryBytes;
  return get<std::uint64_t>(entries_, at + kAtOffset) +
         get<std::uint64_t>(entries_, at + kAtLength);
}

void IndexBuilder::add(const IndexEntry& entry) {
  keys_ += entry.key;
  put(entries_, entry.offset);
  put(entries_, entry.length);
  put(entries_, entry.checksum);
  put(entries_, entry.gap_checksum);
  put(entries_, std::uint64_t{keys_.size()});
  put(entries_, entry.label);
  put(entries_, std::uint32_t{0});
  ++count_;
}

std::vector<std::byte> IndexBuilder::finish(const IndexHeader& header) const {
  std::string names;
  for (const std::string& name : header.classes) names += name + '\0';
  const std::array<std::span<const std::byte>, 4> body = {std::span<const std::byte>(entries_),
                                                          bytes_of(keys_), bytes_of(names),
                                                          bytes_of(header.about)};
  std::size_t total = kHeaderBytes;
  Xxh3 hash;
  for (const auto part : body) {
    hash.update(part);
    total += part.size();
  }
  std::vector<std::byte> bytes;
  bytes.reserve(total);
  for (const unsigned char c : kMagic) put(bytes, c);
  put(bytes, kVersion);
  put(bytes, std::uint32_t{kHeaderBytes});
  for (const std::uint64_t number :
       {std::uint64_t{count_}, std::uint64_t{keys_.size()}, std::uint64_t{header.classes.size()},
        std::uint64_t{names.size()}, std::uint64_t{header.about.size()}, header.tar_bytes,
        header.tail_checksum, hash.digest()}) {
    put(bytes, number);
  }
  bytes.resize(kAtSeal);
  put(bytes, xxh3(bytes));
  for (const auto part : body) append(bytes, part);
  return bytes;
}

}  // namespace convoy::data
