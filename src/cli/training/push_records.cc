#include "cli/training/push_records.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/random.h"
#include "convoy/base/system.h"

namespace convoy::cli {

PushRecords::PushRecords() : folder_(environment("CONVOY_PUSH_RECORDS")) {}

std::uint64_t PushRecords::begin(std::uint64_t client) {
  if (client != client_) {  // it has joined, perhaps again
    client_ = client;
    const std::string path =
        folder_ + "/" + std::to_string(client) + "-" + std::to_string(getpid()) + ".log";
    file_ = Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!file_.open()) throw Failure("can't write " + path);
  }
  // Spread over all numbers, so that their sums and sums of squares tell much.
  const std::uint64_t id = RandomStream(client_, ++count_)();
  write('+', id);
  return id;
}

void PushRecords::end(std::uint64_t id, bool applied) { write(applied ? '=' : '~', id); }

void PushRecords::write(char what, std::uint64_t id) {
  const std::string line = std::string(1, what) + " " + std::to_string(id) + "\n";
  if (write_all(file_.get(), std::as_bytes(std::span(line))) != 0)
    throw Failure("can't write into " + folder_);
}

void PushRecords::write_status(server::Client& client) const {
  constexpr double kPatience_s = 60;
  constexpr auto kPause = std::chrono::milliseconds(100);
  const auto begin = Clock::now();
  while (seconds_since(begin) < kPatience_s) {
    const std::string text = client.status();
    const auto status = nlohmann::json::parse(text);
    const double since = seconds_since(begin);
    const auto& shards = status.at("shards");
    if (std::all_of(shards.begin(), shards.end(), [&](const auto& shard) {
          return shard.contains("report_age_s") &&
                 shard["report_age_s"].template get<double>() < since;
        })) {
      write_file_atomically(folder_ + "/status.json", text);
      return;
    }
    std::this_thread::sleep_for(kPause);
  }
  throw Failure("shards did not report within a minute");
}

}  // namespace convoy::cli
