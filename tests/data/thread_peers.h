// Peers that are threads of the test, and data sets for them.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/data/loadable_dataset.h"
#include "convoy/data/peers.h"

namespace convoy::data {

// A barrier whose waiters sleep: there are more threads than cores.
class Gate {
 public:
  explicit Gate(int ranks) : ranks_(ranks) {}
  void arrive_and_wait() {
    std::unique_lock lock(mutex_);
    const std::uint64_t mine = passed_;
    if (++waiting_ == ranks_) {
      waiting_ = 0;
      ++passed_;
      all_here_.notify_all();
      return;
    }
    all_here_.wait(lock, [&] { return passed_ != mine; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  int ranks_;
  int waiting_ = 0;
  std::uint64_t passed_ = 0;
};

// What the threads of one group share.
struct Meeting {
  explicit Meeting(int ranks)
      : barrier(ranks), texts(at(ranks)), sends(at(ranks)), counts(at(ranks)) {}
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  Gate barrier;
  std::vector<std::string> texts;
  std::vector<std::span<const std::byte>> sends;
  std::vector<std::span<const std::size_t>> counts;
  std::map<int, std::shared_ptr<Meeting>> parts;  // by color
};

class Later final : public Exchange {
 public:
  explicit Later(std::function<void()> work) : work_(std::move(work)) {}
  void wait() override { work_(); }

 private:
  std::function<void()> work_;
};

class ThreadPeers final : public Peers {
 public:
  ThreadPeers(std::shared_ptr<Meeting> meeting, int rank, int size)
      : meeting_(std::move(meeting)), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::vector<std::string> gather(const std::string& text) override {
    meeting_->texts[Meeting::at(rank_)] = text;
    meeting_->barrier.arrive_and_wait();
    const std::vector<std::string> all = meeting_->texts;
    meeting_->barrier.arrive_and_wait();
    return all;
  }

  // The bytes move when it is waited for: whoever touches them before that is found out.
  std::unique_ptr<Exchange> start_exchange(std::span<const std::byte> send,
                                           std::span<const std::size_t> send_counts,
                                           std::span<std::byte> receive,
                                           std::span<const std::size_t> receive_counts,
                                           std::span<const std::size_t> receive_offsets) override {
    const auto copy = [](std::span<const std::size_t> numbers) {
      return std::vector<std::size_t>(numbers.begin(), numbers.end());
    };
    return std::make_unique<Later>([this, send, receive, send_counts = copy(send_counts),
                                    receive_counts = copy(receive_counts),
                                    receive_offsets = copy(receive_offsets)] {
      move(send, send_counts, receive, receive_counts, receive_offsets);
    });
  }

  void move(std::span<const std::byte> send, std::span<const std::size_t> send_counts,
            std::span<std::byte> receive, std::span<const std::size_t> receive_counts,
            std::span<const std::size_t> receive_offsets) {
    const std::size_t me = Meeting::at(rank_);
    meeting_->sends[me] = send;
    meeting_->counts[me] = send_counts;
    meeting_->barrier.arrive_and_wait();
    for (std::size_t from = 0; from < Meeting::at(size_); ++from) {
      const auto& counts = meeting_->counts[from];
      std::size_t begin = 0;
      for (std::size_t i = 0; i < me; ++i) begin += counts[i];
      if (counts[me] != receive_counts[from]) throw Failure("the counts differ");
      const auto part = meeting_->sends[from].subspan(begin, counts[me]);
      std::copy(part.begin(), part.end(), receive.subspan(receive_offsets[from]).begin());
    }
    meeting_->barrier.arrive_and_wait();
  }

  std::unique_ptr<Peers> split(int color) override {
    const std::vector<std::string> colors = gather(std::to_string(color));
    const std::string mine = std::to_string(color);
    const auto size = static_cast<int>(std::count(colors.begin(), colors.end(), mine));
    const auto rank = static_cast<int>(std::count(colors.begin(), colors.begin() + rank_, mine));
    if (rank_ == 0) {
      meeting_->parts.clear();
      for (const std::string& each : colors) {
        const auto ranks = static_cast<int>(std::count(colors.begin(), colors.end(), each));
        meeting_->parts.try_emplace(std::stoi(each), std::make_shared<Meeting>(ranks));
      }
    }
    meeting_->barrier.arrive_and_wait();
    auto part = std::make_unique<ThreadPeers>(meeting_->parts.at(color), rank, size);
    meeting_->barrier.arrive_and_wait();
    return part;
  }

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
  int size_;
};

// The calls of `body` on so many threads. What they throw must not keep others waiting.
inline void run_ranks(int ranks, const std::function<void(Peers&)>& body) {
  const auto meeting = std::make_shared<Meeting>(ranks);
  std::vector<std::exception_ptr> errors(Meeting::at(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          ThreadPeers peers(meeting, rank, ranks);
          body(peers);
        } catch (...) {
          errors[Meeting::at(rank)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// Records of bytes that follow from their number and place.
class NumberedRecords : public LoadableDataset {
 public:
  explicit NumberedRecords(std::vector<std::uint64_t> lengths) : lengths_(std::move(lengths)) {}

  // So many records of `least` to `most` bytes.
  static std::shared_ptr<NumberedRecords> random(std::size_t count, std::uint64_t least,
                                                 std::uint64_t most) {
    RandomStream random(count);
    std::vector<std::uint64_t> lengths(count);
    for (std::uint64_t& length : lengths) length = least + random.below(most - least + 1);
    return std::make_shared<NumberedRecords>(std::move(lengths));
  }

  static std::vector<std::byte> content(std::size_t i, std::uint64_t length) {
    RandomStream random(i + 1);
    std::vector<std::byte> bytes(length);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  }

  std::size_t size() const override { return lengths_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  Record read(std::size_t i, std::vector<std::byte>& scratch) const override {
    scratch = content(i, lengths_[i]);
    return record(i, scratch);
  }
  std::string key(std::size_t i) const override { return "record " + std::to_string(i); }
  std::int64_t label(std::size_t i) const override { return static_cast<std::int64_t>(i % 3); }
  std::uint64_t fingerprint() const override { return lengths_.size(); }
  std::uint64_t length(std::size_t i) const override { return lengths_[i]; }
  void load(Range records, std::span<std::byte> to) const override {
    for (std::size_t i = records.begin; i < records.end; ++i) {
      if (i == bad) throw Failure(key(i) + " is damaged");
      const auto bytes = content(i, lengths_[i]);
      std::copy(bytes.begin(), bytes.end(), to.begin());
      to = to.subspan(bytes.size());
    }
  }
  Record record(std::size_t i, std::span<const std::byte> bytes) const override {
    return {bytes, Encoding::planar_u8, {1, 1, static_cast<int>(bytes.size())}, label(i)};
  }

  std::size_t bad = ~std::size_t{0};  // can't be loaded

 private:
  std::vector<std::uint64_t> lengths_;
  std::vector<std::string> classes_ = {"a", "b", "c"};
};

}  // namespace convoy::data
