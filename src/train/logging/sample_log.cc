#include "train/logging/sample_log.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "train/checkpoint/run_files.h"
#include "train/logging/keep_lines.h"

namespace convoy::train {

SampleLog::SampleLog(std::unique_ptr<data::SampleSource> source, std::string folder, int rank)
    : source_(std::move(source)),
      folder_(std::move(folder)),
      path_(folder_ + "/rank-" + std::to_string(rank) + ".log") {}

namespace {

void drop_later(const std::string& log, std::int64_t resumed_at) {
  keep_lines(log, [resumed_at](const std::string& line) {
    return std::atoll(line.c_str()) <= resumed_at;
  });
}

}  // namespace

void SampleLog::open(std::int64_t resumed_at) {
  make_folders(folder_);
  if (std::filesystem::exists(path_)) drop_later(path_, resumed_at);
  file_ = std::fopen(path_.c_str(), "ae");
  if (file_ == nullptr) throw Failure("can't write " + path_ + ": " + std::strerror(errno));
}

SampleLog::~SampleLog() {
  if (file_ != nullptr) std::fclose(file_);
}

void SampleLog::trim(const std::string& folder, std::int64_t resumed_at) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> logs;  // each is replaced by a new file
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    if (is_sample_log(i->path().filename().string())) logs.push_back(i->path().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Failure("cannot read the folder " + folder + ": " + error.message());
  }
  for (const std::string& log : logs) drop_later(log, resumed_at);
}

const data::Batch* SampleLog::next() {
  const data::Batch* batch = source_->next();
  line_.clear();
  if (batch == nullptr) return nullptr;
  line_ = std::to_string(source_->position().epoch);
  for (const std::size_t sample : batch->samples) line_ += " " + std::to_string(sample);
  return batch;
}

void SampleLog::commit(std::int64_t step) {
  const std::string line = std::to_string(step) + " " + line_ + "\n";
  // Flushed, so that a killed run's log holds every step that was counted.
  if (std::fputs(line.c_str(), file_) < 0 || std::fflush(file_) != 0) {
    throw Failure("can't write " + path_ + ": " + std::strerror(errno));
  }
}

}  // namespace convoy::train
