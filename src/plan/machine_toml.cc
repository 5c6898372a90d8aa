// A machine as TOML, and back.
#include "base/parse_toml.h"
#include "base/toml_text.h"
#include "convoy/base/names.h"
#include "convoy/plan/machine.h"
#include "plan/checks.h"

namespace convoy::plan {
namespace {

// Takes values out of one table; what is left over at the end is unknown.
class Reader {
 public:
  Reader(const toml::table& table, std::string file, std::string path)
      : table_(table), file_(std::move(file)), path_(std::move(path)) {}

  void number(const char* key, double& value) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_number()) fail(*node, key, "a number");
    value = *node->value<double>();
  }

  void integer(const char* key, std::int64_t& value) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_integer()) fail(*node, key, "an integer");
    value = *node->value<std::int64_t>();
  }

  void text(const char* key, std::string& value) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_string()) fail(*node, key, "a text");
    value = *node->value<std::string>();
  }

  const toml::table* table(const char* key) {
    const toml::node* node = take(key);
    if (node != nullptr && !node->is_table()) fail(*node, key, "a table");
    return node == nullptr ? nullptr : node->as_table();
  }

  // Calls `each` with a reader of every element.
  template <typename Each>
  void list(const char* key, const Each& each) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_array()) fail(*node, key, "a list of tables");
    for (const toml::node& element : *node->as_array()) {
      if (!element.is_table()) fail(element, key, "a list of tables");
      Reader reader(*element.as_table(), file_, path_ + key + "[].");
      each(reader);
      reader.no_others();
    }
  }

  void no_others() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const std::string near = nearest_name(name, known_);
      throw UsageError(place(node) + "unknown key '" + path_ + name + "'" +
                       (near.empty() ? "" : "; did you mean '" + near + "'?"));
    }
  }

 private:
  const toml::node* take(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }

  std::string place(const toml::node& node) const {
    return file_ + ":" + std::to_string(node.source().begin.line) + ": ";
  }

  [[noreturn]] void fail(const toml::node& node, const char* key, const char* right) const {
    throw UsageError(place(node) + path_ + key + " must be " + right);
  }

  const toml::table& table_;
  std::string file_;
  std::string path_;
  std::vector<std::string> known_;
};

void read_communication(const toml::table& table, const std::string& file, Communication& c) {
  Reader reader(table, file, "communication.");
  std::string kind;
  reader.text("kind", kind);
  if (kind.empty()) throw UsageError(file + ": communication.kind is missing");
  try {
    c.kind = communication_kind(kind);
  } catch (const UsageError& error) {
    throw UsageError(file + ":" + std::to_string(table.get("kind")->source().begin.line) +
                     ": communication.kind: " + error.what());
  }
  reader.number("delta_s", c.delta_s);
  reader.number("gradient_bytes", c.gradient_bytes);
  reader.number("bandwidth_bytes_per_s", c.bandwidth_bytes_per_s);
  reader.number("latency_s", c.latency_s);
  reader.list("table", [&](Reader& point) {
    c.table.emplace_back();
    point.integer("workers", c.table.back().workers);
    point.number("seconds", c.table.back().seconds);
  });
  reader.no_others();
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
  text += "[compute]\n";
  if (machine.seconds_per_sample != 0 || machine.table.empty()) {
    number("seconds_per_sample", machine.seconds_per_sample);
  }
  number("knee_samples", machine.knee_samples);
  if (machine.overhead_s != 0) number("overhead_s", machine.overhead_s);
  number("processor_share", machine.processor_share);
  if (!machine.table.empty()) {
    text += "table = [\n";
    for (const ComputePoint& point : machine.table) {
      text += "  {samples = " + std::to_string(point.samples) +
              ", seconds = " + toml_number(point.seconds) + "},\n";
    }
    text += "]\n";
  }
  const Communication& c = machine.communication;
  text += "[communication]\n";
  line("kind", toml_string(std::string(name(c.kind))));
  if (c.delta_s != 0) number("delta_s", c.delta_s);
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
  Reader top(root, file, "");
  top.text("source", machine.source);
  const toml::table* compute = top.table("compute");
  if (compute == nullptr) throw UsageError(file + ": the table [compute] is missing");
  Reader reader(*compute, file, "compute.");
  reader.number("seconds_per_sample", machine.seconds_per_sample);
  reader.number("knee_samples", machine.knee_samples);
  reader.number("overhead_s", machine.overhead_s);
  reader.number("processor_share", machine.processor_share);
  reader.list("table", [&](Reader& point) {
    machine.table.emplace_back();
    point.integer("samples", machine.table.back().samples);
    point.number("seconds", machine.table.back().seconds);
  });
  reader.no_others();
  if (const toml::table* communication = top.table("communication")) {
    read_communication(*communication, file, machine.communication);
  }
  try {
    validate(machine);
  } catch (const UsageError& error) {
    throw UsageError(file + ": " + error.what());
  }
  return machine;
}

}  // namespace convoy::plan
