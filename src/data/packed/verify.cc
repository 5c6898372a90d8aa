#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/data/packed.h"
#include "convoy/data/transform.h"
#include "data/decode/large_pictures.h"
#include "data/kept_memory.h"
#include "data/packed/open.h"
#include "data/packed/teller.h"

namespace convoy::data {
namespace {

constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
// How many records a thread takes at a time.
constexpr std::size_t kTurn = 64;

// Compares a tar with its index, on several threads.
class Verifier {
 public:
  Verifier(const OpenPacked& file, const VerifyOptions& options)
      : file_(file),
        options_(options),
        // A tar that was cut short has only so much to compare.
        end_(std::min(file.tar.size(), file.index.header().tar_bytes)),
        teller_(options.tell, static_cast<double>(end_)) {}

  VerifyResult run() {
    if (file_.tar.size() != file_.index.header().tar_bytes) {
      add({"tar", "", 0, file_.tar.size(),
           "it has " + std::to_string(file_.tar.size()) + " bytes, the index says " +
               std::to_string(file_.index.header().tar_bytes) +
               (file_.tar.size() < end_of_index() ? ": truncated, or another tar"
                                                  : ": another tar")});
    }
    {
      std::vector<std::jthread> threads;
      for (int i = 1; i < options_.threads; ++i) threads.emplace_back([this] { work(); });
      work();
    }
    if (error_) std::rethrow_exception(error_);
    check_tail();
    teller_.finish();
    std::stable_sort(result_.problems.begin(), result_.problems.end(),
                     [](const auto& a, const auto& b) { return a.offset < b.offset; });
    result_.records = file_.index.size();
    result_.bytes = done_;
    return std::move(result_);
  }

 private:
  std::uint64_t end_of_index() const { return file_.index.header().tar_bytes; }

  void add(PackedProblem problem) {
    const std::lock_guard lock(mutex_);
    result_.problems.push_back(std::move(problem));
  }

  void work() {
    std::vector<std::byte> scratch;
    try {
      while (true) {
        const std::size_t begin = next_.fetch_add(kTurn);
        if (begin >= file_.index.size()) return;
        const std::size_t end = std::min(begin + kTurn, file_.index.size());
        for (std::size_t i = begin; i < end; ++i) check(i, scratch);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = file_.index.size();
    }
  }

  // Reads the bytes into scratch if they are to be kept; otherwise a piece at a time.
  std::uint64_t hash(std::uint64_t begin, std::uint64_t length, std::vector<std::byte>& scratch,
                     bool keep) {
    const auto size = static_cast<std::size_t>(keep ? length : std::min(length, kPiece));
    scratch.resize(size);
    Xxh3 hash;
    for (std::uint64_t at = 0; at < length; at += size) {
      const auto piece = std::span(scratch).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(size, length - at)));
      file_.tar.read(begin + at, piece);
      hash.update(piece);
      count(piece.size());
    }
    return hash.digest();
  }

  void count(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    teller_.at(static_cast<double>(done_));
  }

  void check(std::size_t i, std::vector<std::byte>& scratch) {
    const IndexEntry entry = file_.index[i];
    const std::string key(entry.key);
    const std::uint64_t gap = file_.index.gap_begin(i);
    const std::uint64_t gap_length = entry.offset - gap;
    if (entry.offset > end_) {
      add({"record", key, entry.offset, entry.length, "it lies behind the end of the tar"});
      return;
    }
    if (hash(gap, gap_length, scratch, false) != entry.gap_checksum) {
      add({"between records", key, gap, gap_length,
           "the bytes before this record (header, padding, label) are damaged"});
    }
    if (entry.length > end_ - entry.offset) {
      add({"record", key, entry.offset, entry.length, "the tar ends inside of it"});
      return;
    }
    const bool decode = options_.decode && entry.length <= kLargestRecord;
    if (hash(entry.offset, entry.length, scratch, decode) != entry.checksum) {
      add({"record", key, entry.offset, entry.length, "it is damaged: its checksum differs"});
    } else if (options_.decode && !decode) {
      add({"record", key, entry.offset, entry.length, "it can't be decoded: it has over 1 GiB"});
    } else if (decode) {
      try {
        const std::size_t bytes = shape_of({scratch, encoding_of(scratch), {}, 0}).elements();
        std::optional<LargePicture> turn;
        if (bytes > kKeptBytes) turn.emplace(bytes);
        Image image;
        decode_image(scratch, 0, image);
      } catch (const UsageError& error) {
        add({"record", key, entry.offset, entry.length,
             std::string("it can't be decoded: ") + error.what()});
      } catch (const std::bad_alloc&) {
        add({"record", key, entry.offset, entry.length,
             "it can't be decoded: there is no memory for it on this host"});
      }
    }
  }

  void check_tail() {
    const std::uint64_t begin = file_.index.gap_begin(file_.index.size());
    if (file_.tar.size() != end_of_index()) return;  // said already
    std::vector<std::byte> scratch;
    if (hash(begin, end_ - begin, scratch, false) != file_.index.header().tail_checksum) {
      add({"end", "", begin, end_ - begin, "the bytes behind the last record are damaged"});
    }
  }

  const OpenPacked& file_;
  const VerifyOptions& options_;
  const std::uint64_t end_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;  // guards what follows
  std::uint64_t done_ = 0;
  Teller teller_;
  VerifyResult result_;
  std::exception_ptr error_;
};

}  // namespace

VerifyResult verify_packed(const std::string& tar, const VerifyOptions& options) {
  if (options.threads < 1) throw UsageError("verifying takes at least 1 thread");
  try {
    const OpenPacked file(tar);
    return Verifier(file, options).run();
  } catch (const IndexError& error) {
    VerifyResult result;
    result.problems.push_back({"index", "", 0, 0, error.what()});
    return result;
  }
}

}  // namespace convoy::data
