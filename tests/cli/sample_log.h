// What the ranks of a run with output.log_samples = true wrote down.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace convoy::cli {

struct SampleLog {
  std::map<std::pair<int, int>, int> times;  // each sample was used, by epoch and sample
  std::map<int, std::set<int>> batches;      // of all ranks together, by step
};

inline SampleLog read_sample_log(const std::string& run) {
  SampleLog log;
  for (const auto& entry : std::filesystem::directory_iterator(run + "/samples")) {
    std::ifstream file(entry.path());
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      int step = 0, epoch = 0, sample = 0;
      words >> step >> epoch;
      while (words >> sample) {
        ++log.times[{epoch, sample}];
        log.batches[step].insert(sample);
      }
    }
  }
  return log;
}

}  // namespace convoy::cli
