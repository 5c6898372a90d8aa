// A machine as TOML, and back.
#include "base/toml_text.h"
#include "convoy/plan/machine.h"
#include "plan/checks.h"
#include "plan/toml_reader.h"

namespace convoy::plan {
namespace {

// The kinds that say how delta grows with the workers.
bool is_of_delta(CommunicationKind kind) {
  return kind == CommunicationKind::constant || kind == CommunicationKind::server ||
         kind == CommunicationKind::ring || kind == CommunicationKind::tree;
}

void read_communication(const toml::table& table, const std::string& file, Communication& c) {
  TomlReader reader(table, file, "communication.");
  std::string kind;
  reader.text("kind", kind);
  if (kind.empty()) throw UsageError(file + ": communication.kind is missing");
  const int line = static_cast<int>(table.get("kind")->source().begin.line);
  try {
    c.kind = communication_kind(kind);
  } catch (const UsageError& error) {
    throw UsageError(file + ":" + std::to_string(line) + ": communication.kind: " + error.what());
  }
  reader.number("delta_s", c.delta_s);
  reader.number("gradient_bytes", c.gradient_bytes);
  reader.number("bandwidth_bytes_per_s", c.bandwidth_bytes_per_s);
  reader.number("latency_s", c.latency_s);
  reader.list("table", [&](TomlReader& point) {
    c.table.emplace_back();
    point.integer("workers", c.table.back().workers);
    point.number("seconds", c.table.back().seconds);
  });
  reader.no_others();
  const bool timed = table.contains("delta_s") || table.contains("bandwidth_bytes_per_s");
  if (is_of_delta(c.kind) && !timed) {
    throw UsageError(file + ":" + std::to_string(line) + ": communication.kind is '" + kind +
                     "', and nothing says how long that takes; give delta_s, or gradient_bytes and "
                     "bandwidth_bytes_per_s");
  }
}

}  // namespace

std::string to_toml(const Machine& machine) {
  validate(machine);
  std::string text;
  const auto line = [&](const char* key, const std::string& value) {
    text += std::string(key) + " = " + value + "\n";
  };
  const auto number = [&](const char* key, double value) { line(key, toml_number(value)); };
  if (!machine.source.empty()) line("source", toml_string(machine.source));
  if (!machine.name.empty()) line("name", toml_string(machine.name));
  if (!machine.model.empty()) line("model", toml_string(machine.model));
  text += "[compute]\n";
  if (machine.seconds_per_sample != 0 || machine.table.empty()) {
    number("seconds_per_sample", machine.seconds_per_sample);
  }
  number("knee_samples", machine.knee_samples);
  if (machine.overhead_s != 0) number("overhead_s", machine.overhead_s);
  number("processor_share", machine.processor_share);
  if (machine.memory_samples > 0) line("memory_samples", std::to_string(machine.memory_samples));
  if (!machine.table.empty()) {
    text += "table = [\n";
    for (const ComputePoint& point : machine.table) {
      text += "  {samples = " + std::to_string(point.samples) +
              ", seconds = " + toml_number(point.seconds) + "},\n";
    }
    text += "]\n";
  }
  if (!machine.contention.empty()) {
    text += "contention = [\n";
    for (const ContentionPoint& point : machine.contention) {
      text += "  {workers = " + std::to_string(point.workers) +
              ", part = " + toml_number(point.part) + "},\n";
    }
    text += "]\n";
  }
  const Communication& c = machine.communication;
  if (c.kind == CommunicationKind::unknown) return text;
  text += "[communication]\n";
  line("kind", toml_string(std::string(name(c.kind))));
  const bool nothing_else = is_of_delta(c.kind) && c.bandwidth_bytes_per_s == 0;
  if (c.delta_s != 0 || nothing_else) number("delta_s", c.delta_s);
  if (c.gradient_bytes != 0) number("gradient_bytes", c.gradient_bytes);
  if (c.bandwidth_bytes_per_s != 0) number("bandwidth_bytes_per_s", c.bandwidth_bytes_per_s);
  if (c.latency_s != 0) number("latency_s", c.latency_s);
  if (!c.table.empty()) {
    text += "table = [\n";
    for (const CommunicationPoint& point : c.table) {
      text += "  {workers = " + std::to_string(point.workers) +
              ", seconds = " + toml_number(point.seconds) + "},\n";
    }
    text += "]\n";
  }
  return text;
}

Machine machine_of_toml(const std::string& text, const std::string& name) {
  const std::string file = file_in_messages(name);
  const toml::table root = parse_toml(text, file);
  Machine machine;
  TomlReader top(root, file, "");
  top.text("source", machine.source);
  top.text("name", machine.name);
  top.text("model", machine.model);
  const toml::table* compute = top.table("compute");
  if (compute == nullptr) throw UsageError(file + ": the table [compute] is missing");
  TomlReader reader(*compute, file, "compute.");
  reader.number("seconds_per_sample", machine.seconds_per_sample);
  reader.number("knee_samples", machine.knee_samples);
  reader.number("overhead_s", machine.overhead_s);
  reader.number("processor_share", machine.processor_share);
  reader.integer("memory_samples", machine.memory_samples);
  reader.list("table", [&](TomlReader& point) {
    machine.table.emplace_back();
    point.integer("samples", machine.table.back().samples);
    point.number("seconds", machine.table.back().seconds);
  });
  reader.list("contention", [&](TomlReader& point) {
    machine.contention.emplace_back();
    point.integer("workers", machine.contention.back().workers);
    point.number("part", machine.contention.back().part);
  });
  reader.no_others();
  machine.communication.kind = CommunicationKind::unknown;
  if (const toml::table* communication = top.table("communication")) {
    read_communication(*communication, file, machine.communication);
  }
  top.table("placement");  // placement.h
  top.no_others();
  try {
    validate(machine);
  } catch (const UsageError& error) {
    throw UsageError(file + ": " + error.what());
  }
  return machine;
}

}  // namespace convoy::plan
