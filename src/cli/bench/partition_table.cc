#include "cli/bench/partition_table.h"

#include <cstdint>
#include <cstdio>
#include <string>

#include "cli/counts.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;

double number(const Json& row, const char* key) { return row.at(key).get<double>(); }

std::string seconds(const Json& value) {
  return value == 0 ? "-" : format_seconds(value.get<double>());
}

std::string bytes(const Json& value) {
  if (value.is_null()) return "not known";
  return value == 0 ? "-" : format_bytes(static_cast<std::uint64_t>(value.get<double>()));
}

std::string count(const Json& value) {
  return with_commas(static_cast<std::int64_t>(value.get<double>()));
}

std::string speed_up(const Json& row, const char* key) {
  if (!row.contains(key)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2fx", number(row, key));
  return text;
}

void print_training(const std::vector<Json>& rows) {
  std::printf("\n%-10s %10s %10s %10s %9s %10s %10s %10s %11s %11s\n", "training", "mini-batch",
              "from", "to", "speed-up", "waits from", "mean", "to", "sends mean", "most");
  for (const Json& row : rows) {
    const Json &waits = row.at("waiting_s"), &sent = row.at("sent_bytes");
    std::printf("%10d %10s %10s %10s %9s %10s %10s %10s %11s %11s\n",
                row.at("partitions").get<int>(), seconds(row.at("training_s")).c_str(),
                seconds(row.at("training_least_s")).c_str(),
                seconds(row.at("training_most_s")).c_str(), speed_up(row, "speedup").c_str(),
                seconds(waits.at("least")).c_str(), seconds(waits.at("mean")).c_str(),
                seconds(waits.at("most")).c_str(), bytes(sent.at("mean")).c_str(),
                bytes(sent.at("most")).c_str());
  }
}

void print_inference(const std::vector<Json>& rows) {
  std::printf("\n%-10s %10s %10s %10s %9s %32s %11s %11s\n", "inference", "mini-batch", "from",
              "to", "speed-up", "communication under way", "sends mean", "most");
  for (const Json& row : rows) {
    const Json& sent = row.at("inference_sent_bytes");
    std::printf(
        "%10d %10s %10s %10s %9s %32s %11s %11s\n", row.at("partitions").get<int>(),
        seconds(row.at("inference_s")).c_str(), seconds(row.at("inference_least_s")).c_str(),
        seconds(row.at("inference_most_s")).c_str(), speed_up(row, "inference_speedup").c_str(),
        seconds(row.at("inference_communication_s")).c_str(), bytes(sent.at("mean")).c_str(),
        bytes(sent.at("most")).c_str());
  }
}

void print_sizes(const std::vector<Json>& rows) {
  std::printf("\n%-10s %15s %15s %11s %11s\n", "partitions", "parameters from", "to", "memory from",
              "to");
  for (const Json& row : rows) {
    const Json &parameters = row.at("parameters"), &memory = row.at("memory_bytes");
    std::printf("%10d %15s %15s %11s %11s\n", row.at("partitions").get<int>(),
                count(parameters.at("least")).c_str(), count(parameters.at("most")).c_str(),
                bytes(memory.at("least")).c_str(), bytes(memory.at("most")).c_str());
  }
}

// Times of ranks that share cores are not those of as many machines.
void print_notes(const std::vector<Json>& rows) {
  for (const Json& row : rows) {
    const int threads = row.at("ranks_per_host").get<int>() * row.at("threads").get<int>();
    const int cores = row.at("cores_per_host").get<int>();
    if (threads <= cores) continue;
    std::printf(
        "\n%d threads of %d partitions share %d core%s here: times are not those of %d machines "
        "(tools/cluster gives each a part of a core)\n",
        threads, row.at("partitions").get<int>(), cores, cores == 1 ? "" : "s",
        row.at("partitions").get<int>());
    return;
  }
}

}  // namespace

void print_partition_rows(const std::vector<Json>& rows) {
  const Json& first = rows.front();
  const int threads = first.at("threads").get<int>();
  std::printf(
      "%s, mini-batches of %lld, images by %s%s, %s, %d thread%s for each partition; medians of %d "
      "repetition%s\n",
      first.at("network").get<std::string>().c_str(), first.at("batch").get<long long>(),
      first.at("images").get<std::string>().c_str(),
      first.at("overlap").get<bool>() ? "" : " without overlap",
      first.at("precision").get<std::string>().c_str(), threads, threads == 1 ? "" : "s",
      first.at("repetitions").get<int>(), first.at("repetitions") == 1 ? "" : "s");
  print_training(rows);
  print_inference(rows);
  print_sizes(rows);
  print_notes(rows);
}

}  // namespace convoy::cli
