#include "data/pack/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include "base/own_files.h"

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "data/bytes.h"
#include "data/packed/names.h"
#include "data/readers/input_file.h"
#include "data/tar/format.h"

namespace convoy::data {
namespace {

constexpr std::size_t kBuffer = std::size_t{4} << 20;

// A line of the report has two tabs, whatever the messages hold.
std::string report_text(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

// "2", or "[0, 2]".
std::string text_of(std::span<const std::uint32_t> labels, bool list) {
  std::string text;
  for (const std::uint32_t label : labels)
    text += (text.empty() ? "" : ", ") + std::to_string(label);
  return (list ? "[" + text + "]" : text) + "\n";
}

std::uint64_t hash_of(const InputFile& file, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(end - begin));
  file.read(begin, bytes);
  return xxh3(bytes);
}

}  // namespace

PackWriter::PackWriter(const PackOptions& options, const std::string& identity,
                       std::vector<std::string> classes, std::string about, bool label_lists)
    : options_(options),
      partial_(options.out + ".partial"),
      classes_(std::move(classes)),
      about_(std::move(about)),
      label_lists_(label_lists),
      journal_(options.out + ".partial.journal", identity, options.overwrite),
      fd_(::open(partial_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666)) {
  if (fd_ < 0) fail(errno);
  try {
    resume();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

PackWriter::~PackWriter() { ::close(fd_); }

void PackWriter::fail(int error) const {
  throw Failure(
      "cannot write " + partial_ + ": " + std::generic_category().message(error) +
      (error == ENOSPC ? "; make room and run the same again: it goes on from here" : ""));
}

// How many entries of the journal the tar bears out. A power cut may have kept the one and not the
// other.
std::size_t PackWriter::sound_entries() {
  const std::vector<JournalEntry>& entries = journal_.entries();
  const InputFile tar(partial_);
  std::uint64_t end = 0;
  std::size_t last_record = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const JournalEntry& e = entries[i];
    if (e.bad) continue;
    const std::uint64_t size = tar.size();
    if (e.offset < end || e.offset > size || e.length > size - e.offset ||
        hash_of(tar, end, e.offset) != e.gap_checksum ||
        hash_of(tar, e.offset, e.offset + e.length) != e.checksum) {
      break;
    }
    end = e.offset + e.length;
    last_record = i;
  }
  // What follows a record's bytes is borne out by the next one: the last one is made again.
  return last_record;
}

void PackWriter::resume() {
  journal_.cut(sound_entries());
  std::uint64_t record_end = 0;
  for (const JournalEntry& entry : journal_.entries()) {
    take(entry);
    if (entry.bad) continue;
    record_end = entry.offset + entry.length;
    position_ = entry.end;
  }
  result_.resumed = taken_;
  if (::ftruncate(fd_, static_cast<off_t>(position_)) != 0 ||
      ::lseek(fd_, static_cast<off_t>(position_), SEEK_SET) < 0) {
    fail(errno);
  }
  if (index_.size() == 0) {
    begin();
    return;
  }
  gap_.resize(static_cast<std::size_t>(position_ - record_end));
  InputFile(partial_).read(record_end, gap_);
}

// The members in front of the records.
void PackWriter::begin() {
  std::string names;
  for (const std::string& name : classes_) names += name + '\n';
  append_tar_member(gap_, std::string(kClassesMember), bytes_of(names));
  append_tar_member(gap_, std::string(kAboutMember), bytes_of(about_));
  write(gap_);
}

void PackWriter::write(std::span<const std::byte> bytes) {
  append(buffer_, bytes);
  position_ += bytes.size();
}

void PackWriter::take(const JournalEntry& entry) {
  ++taken_;
  if (entry.bad) {
    ++result_.bad;
    bad_.push_back(entry.text);
    return;
  }
  ++result_.records;
  if (entry.unchanged) ++result_.unchanged;
  index_.add({entry.text, entry.offset, entry.length, entry.checksum, entry.gap_checksum},
             entry.labels);
}

void PackWriter::add_record(const std::string& key, std::span<const std::uint32_t> labels,
                            const Converted& image) {
  JournalEntry entry;
  entry.unchanged = image.unchanged;
  entry.text = key + "." + image.extension;
  entry.labels.assign(labels.begin(), labels.end());
  std::vector<std::byte> header;
  append_tar_header(header, entry.text, image.bytes.size());
  append(gap_, header);
  entry.gap_checksum = xxh3(gap_);
  write(header);
  entry.offset = position_;
  entry.length = image.bytes.size();
  entry.checksum = xxh3(image.bytes);
  write(image.bytes);
  gap_.clear();
  append_tar_padding(gap_, image.bytes.size());
  const std::string text = text_of(labels, label_lists_);
  append_tar_member(gap_, key + (label_lists_ ? ".cls.json" : ".cls"), bytes_of(text));
  write(gap_);
  entry.end = result_.bytes = position_;
  take(entry);
  journal_.add(entry);
  if (buffer_.size() >= kBuffer) save();
}

void PackWriter::add_bad(const std::string& name, const std::string& why) {
  JournalEntry entry;
  entry.bad = true;
  entry.text = report_text(name) + "\t" + report_text(why);
  take(entry);
  journal_.add(entry);
}

void PackWriter::save() {
  if (const int error = write_all(fd_, buffer_)) fail(error);
  buffer_.clear();
  journal_.flush();
}

void PackWriter::write_report(const std::vector<Renamed>& renamed) const {
  AtomicFile report(options_.out + ".report.tsv");
  report.write(std::string(kPackReportMark));
  for (const std::string& line : bad_) report.write("bad\t" + line + "\n");
  for (const Renamed& r : renamed) {
    report.write("renamed\t" + report_text(r.name) + "\t" + r.key + "\n");
  }
  report.commit();
}

PackResult PackWriter::finish(const std::vector<Renamed>& renamed) {
  result_.report = options_.out + ".report.tsv";
  write_report(renamed);
  if (index_.size() == 0) {
    ::unlink(partial_.c_str());
    journal_.remove();
    throw UsageError("none of the " + std::to_string(taken_) + " images could be packed; " +
                     result_.report + " says why");
  }
  const std::vector<std::byte> end(kTarEnd);
  write(end);
  append(gap_, end);
  save();
  result_.classes = classes_.size();
  result_.labels = index_.labels();
  result_.label_lists = index_.label_lists();
  result_.renamed = renamed.size();
  result_.bytes = position_;
  result_.index = index_path(options_.out);
  AtomicFile index(result_.index);
  index.write(index_.finish({position_, xxh3(gap_), classes_, about_}));
  index.commit();
  move_into_place(partial_, options_.out);
  journal_.remove();
  return result_;
}

}  // namespace convoy::data
