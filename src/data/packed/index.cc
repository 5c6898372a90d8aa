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
constexpr std::array<unsigned char, 8> kIndexMagic = {0x89, 'C', 'V', 'I', 'X', '\r', '\n', 0x1a};
constexpr std::uint32_t kOneLabel = 1, kLabelLists = 2;  // versions
constexpr std::size_t kHeaderBytes = 128;
constexpr std::size_t kEntryBytes = 48;
constexpr std::size_t kLabelBytes = 4;
// Where the header's fields stand.
constexpr std::size_t kAtVersion = 8, kAtHeaderBytes = 12, kAtRecords = 16, kAtKeyBytes = 24,
                      kAtClasses = 32, kAtClassBytes = 40, kAtAboutBytes = 48, kAtTarBytes = 56,
                      kAtTail = 64, kAtBody = 72, kAtLabels = 80, kAtSeal = 120;
// From where on they are zero.
constexpr std::size_t kAtZeros = 80, kAtZerosOfLists = 88;
// And an entry's. With lists, what stands in place of a label is where the record's labels end.
constexpr std::size_t kAtOffset = 0, kAtLength = 8, kAtChecksum = 16, kAtGap = 24, kAtKeyEnd = 32,
                      kAtLabel = 40, kAtFlags = 44, kAtLabelsEnd = 40;

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw IndexError(name + ": " + what);
}

// Magic, checksum and version, which it gives, in an order that tells damage from another version.
std::uint32_t check_header(std::span<const std::byte> bytes, const std::string& name) {
  const auto same = [](std::byte a, unsigned char b) { return a == std::byte{b}; };
  if (bytes.size() < kIndexMagic.size() ||
      !std::equal(kIndexMagic.begin(), kIndexMagic.end(), bytes.begin(),
                  [&](unsigned char b, std::byte a) { return same(a, b); })) {
    fail(name, "not an index of Convoy, or its first bytes are damaged");
  }
  if (bytes.size() < kHeaderBytes) fail(name, "truncated: it ends inside of the header");
  if (get<std::uint64_t>(bytes, kAtSeal) != xxh3(bytes.first(kAtSeal))) {
    fail(name, "damaged: the header's checksum differs; make the index anew with convoy index");
  }
  const auto version = get<std::uint32_t>(bytes, kAtVersion);
  if (version != kOneLabel && version != kLabelLists) {
    throw UsageError(name + ": an index of version " + std::to_string(version) +
                     ", while this Convoy reads 1 and 2: take a newer Convoy, or make the index "
                     "anew with convoy index");
  }
  bool zero = get<std::uint32_t>(bytes, kAtHeaderBytes) == kHeaderBytes;
  for (std::size_t i = version == kLabelLists ? kAtZerosOfLists : kAtZeros; i < kAtSeal; ++i)
    zero = zero && bytes[i] == std::byte{0};
  if (!zero) {
    fail(name, "the header has fields that version " + std::to_string(version) + " does not have");
  }
  return version;
}

std::string of_record(std::size_t i) { return "record " + std::to_string(i) + " "; }

}  // namespace

std::string index_path(const std::string& tar) { return tar + ".index"; }

Index::Index(std::vector<std::byte> bytes, const std::string& name) : bytes_(std::move(bytes)) {
  const std::span<const std::byte> all(bytes_);
  label_lists_ = check_header(all, name) == kLabelLists;
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
  const std::size_t label_bytes =
      label_lists_ ? part(get<std::uint64_t>(all, kAtLabels), kLabelBytes) : 0;
  const std::size_t about_bytes = part(get<std::uint64_t>(all, kAtAboutBytes), 1);
  if (left != 0) fail(name, std::to_string(left) + " bytes follow the index");
  if (get<std::uint64_t>(all, kAtBody) != xxh3(body)) {
    fail(name, "damaged: its checksum differs; make the index anew with convoy index");
  }
  count_ = entry_bytes / kEntryBytes;
  entries_ = body.first(entry_bytes);
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  keys_ = text.substr(entry_bytes, key_bytes);
  const std::size_t names_end = entry_bytes + key_bytes + class_bytes;
  labels_ = body.subspan(names_end, label_bytes);
  header_.about = text.substr(names_end + label_bytes, about_bytes);
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
  label_lists_ ? check_lists(name) : check_labels(name);
  fingerprint_ = xxh3(body.first(names_end + label_bytes));
}

void Index::check_entries(const std::string& name) const {
  std::uint64_t end = 0, key_end = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const std::span<const std::byte> entry = entries_.subspan(i * kEntryBytes, kEntryBytes);
    const auto offset = get<std::uint64_t>(entry, kAtOffset);
    const auto length = get<std::uint64_t>(entry, kAtLength);
    const auto this_key_end = get<std::uint64_t>(entry, kAtKeyEnd);
    const auto wrong = [&](const std::string& what) { fail(name, of_record(i) + what); };
    if (offset < end) wrong("overlaps the one before it");
    if (offset > header_.tar_bytes || length > header_.tar_bytes - offset) {
      wrong("lies at bytes " + std::to_string(offset) + " to " + std::to_string(offset) + " + " +
            std::to_string(length) + ", outside of the tar's " + std::to_string(header_.tar_bytes));
    }
    if (this_key_end < key_end || this_key_end > keys_.size())
      wrong("has a key outside of the keys");
    end = offset + length;
    key_end = this_key_end;
  }
  if (key_end != keys_.size()) fail(name, "there are keys of no record");
}

void Index::check_label(const std::string& name, std::size_t i, std::uint32_t label) const {
  if (label < header_.classes.size()) return;
  fail(name, of_record(i) + "has the label " + std::to_string(label) + "; there are " +
                 std::to_string(header_.classes.size()) + " classes");
}

void Index::check_labels(const std::string& name) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const std::size_t at = i * kEntryBytes;
    check_label(name, i, get<std::uint32_t>(entries_, at + kAtLabel));
    if (get<std::uint32_t>(entries_, at + kAtFlags) != 0)
      fail(name, of_record(i) + "has flags that version 1 does not have");
  }
}

void Index::check_lists(const std::string& name) const {
  const std::size_t all = labels_.size() / kLabelBytes;
  std::size_t end = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const std::size_t begin = end;
    end = labels_end(i);
    if (end < begin || end > all) {
      fail(name, of_record(i) + "has labels " + std::to_string(begin) + " to " +
                     std::to_string(end) + " of " + std::to_string(all));
    }
    std::int64_t before = kNoLabel;
    for (std::size_t k = begin; k < end; ++k) {
      const auto label = get<std::uint32_t>(labels_, k * kLabelBytes);
      check_label(name, i, label);
      if (label <= before) fail(name, of_record(i) + "has labels that don't ascend");
      before = label;
    }
  }
  if (end != all) fail(name, "there are labels of no record");
}

std::size_t Index::labels_end(std::size_t i) const {
  return get<std::uint64_t>(entries_, i * kEntryBytes + kAtLabelsEnd);
}

std::size_t Index::labels_begin(std::size_t i) const { return i == 0 ? 0 : labels_end(i - 1); }

std::vector<std::int64_t> Index::labels(std::size_t i) const {
  if (!label_lists_) return {get<std::uint32_t>(entries_, i * kEntryBytes + kAtLabel)};
  const std::size_t begin = labels_begin(i);
  std::vector<std::int64_t> labels(labels_end(i) - begin);
  for (std::size_t k = 0; k < labels.size(); ++k)
    labels[k] = get<std::uint32_t>(labels_, (begin + k) * kLabelBytes);
  return labels;
}

IndexEntry Index::operator[](std::size_t i) const {
  const std::span<const std::byte> entry = entries_.subspan(i * kEntryBytes, kEntryBytes);
  const std::size_t key_begin =
      i == 0 ? 0 : get<std::uint64_t>(entries_, (i - 1) * kEntryBytes + kAtKeyEnd);
  const std::size_t key_end = get<std::uint64_t>(entry, kAtKeyEnd);
  std::int64_t label = kNoLabel;
  if (!label_lists_) {
    label = get<std::uint32_t>(entry, kAtLabel);
  } else if (labels_begin(i) < labels_end(i)) {
    label = get<std::uint32_t>(labels_, labels_begin(i) * kLabelBytes);
  }
  return {keys_.substr(key_begin, key_end - key_begin),
          get<std::uint64_t>(entry, kAtOffset),
          get<std::uint64_t>(entry, kAtLength),
          get<std::uint64_t>(entry, kAtChecksum),
          get<std::uint64_t>(entry, kAtGap),
          label};
}

std::uint64_t Index::gap_begin(std::size_t i) const {
  if (i == 0) return 0;
  const std::size_t at = (i - 1) * kEntryBytes;
  return get<std::uint64_t>(entries_, at + kAtOffset) +
         get<std::uint64_t>(entries_, at + kAtLength);
}

void IndexBuilder::add(const IndexEntry& entry) {
  const auto label = static_cast<std::uint32_t>(entry.label);
  add(entry, std::span(&label, 1));
}

void IndexBuilder::add(const IndexEntry& entry, std::span<const std::uint32_t> labels) {
  if (labels.size() != 1 && !label_lists_) begin_lists();
  keys_ += entry.key;
  put(entries_, entry.offset);
  put(entries_, entry.length);
  put(entries_, entry.checksum);
  put(entries_, entry.gap_checksum);
  put(entries_, std::uint64_t{keys_.size()});
  if (label_lists_) {
    for (const std::uint32_t label : labels) put(labels_, label);
    put(entries_, std::uint64_t{labels_.size() / kLabelBytes});
  } else {
    put(entries_, labels.front());
    put(entries_, std::uint32_t{0});
  }
  ++count_;
}

// Every record so far had one label.
void IndexBuilder::begin_lists() {
  label_lists_ = true;
  for (std::size_t i = 0; i < count_; ++i) {
    const auto place =
        entries_.begin() + static_cast<std::ptrdiff_t>(i * kEntryBytes + kAtLabelsEnd);
    labels_.insert(labels_.end(), place, place + kLabelBytes);
    std::vector<std::byte> end;
    put(end, std::uint64_t{i + 1});
    std::copy(end.begin(), end.end(), place);
  }
}

std::uint64_t IndexBuilder::labels() const {
  return label_lists_ ? labels_.size() / kLabelBytes : count_;
}

std::vector<std::byte> IndexBuilder::finish(const IndexHeader& header) const {
  std::string names;
  for (const std::string& name : header.classes) names += name + '\0';
  const std::array<std::span<const std::byte>, 5> body = {
      std::span<const std::byte>(entries_), bytes_of(keys_), bytes_of(names),
      std::span<const std::byte>(labels_), bytes_of(header.about)};
  std::size_t total = kHeaderBytes;
  Xxh3 hash;
  for (const auto part : body) {
    hash.update(part);
    total += part.size();
  }
  std::vector<std::byte> bytes;
  bytes.reserve(total);
  for (const unsigned char c : kIndexMagic) put(bytes, c);
  put(bytes, label_lists_ ? kLabelLists : kOneLabel);
  put(bytes, std::uint32_t{kHeaderBytes});
  for (const std::uint64_t number :
       {std::uint64_t{count_}, std::uint64_t{keys_.size()}, std::uint64_t{header.classes.size()},
        std::uint64_t{names.size()}, std::uint64_t{header.about.size()}, header.tar_bytes,
        header.tail_checksum, hash.digest()}) {
    put(bytes, number);
  }
  if (label_lists_) put(bytes, labels());
  bytes.resize(kAtSeal);
  put(bytes, xxh3(bytes));
  for (const auto part : body) append(bytes, part);
  return bytes;
}

}  // namespace convoy::data
