// Converts the images of a source on several threads, in the order of packing.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "data/pack/converter.h"
#include "data/pack/source.h"

namespace convoy::data {

// Holds a few images for each thread at a time, however large the source. take() is for one thread.
class PackPipeline {
 public:
  // `order`: which image of the source comes when; all before `begin` are passed over. Everything
  // that is given must outlive this. Throws Failure when threads can't be started.
  PackPipeline(PackSource& source, Converter& converter, const std::vector<std::size_t>& order,
               std::size_t begin, int threads);
  ~PackPipeline();
  PackPipeline(const PackPipeline&) = delete;
  PackPipeline& operator=(const PackPipeline&) = delete;

  // What became of an image: either it was converted, or there is a problem with it.
  struct Result {
    Converted image;
    std::string problem;
    std::exception_ptr error;  // reading the source failed: nothing follows
    bool ready = false;
  };

  // Gives what became of the next image; call it no more often than there are images. Throws what
  // reading the source threw.
  Result take();

 private:
  void stop();
  void work();
  Result make(std::size_t i, std::vector<std::byte>& scratch, std::unique_lock<std::mutex>& turn);

  PackSource& source_;
  Converter& converter_;
  const std::vector<std::size_t>& order_;
  std::mutex source_mutex_;  // of a source that is read in one order; taken before mutex_
  std::mutex mutex_;         // guards what follows
  std::condition_variable changed_;
  std::size_t next_;   // to be read
  std::size_t taken_;  // by take()
  bool stopping_ = false;
  std::vector<Result> slots_;
  std::vector<std::thread> threads_;
};

}  // namespace convoy::data
