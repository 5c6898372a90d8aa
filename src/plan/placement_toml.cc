// What was measured of a network on a machine, as TOML, and back.
#include <algorithm>
#include <set>
#include <utility>

#include "base/toml_text.h"
#include "convoy/plan/placement.h"
#include "plan/checks.h"
#include "plan/toml_reader.h"

namespace convoy::plan {
namespace {

void read_times(TomlReader& from, const char* key, std::vector<PassTime>& times) {
  from.list(key, [&](TomlReader& reader) {
    PassTime& time = times.emplace_back();
    reader.integer("samples", time.samples);
    reader.integer("units", time.units);
    reader.number("forward_s", time.forward_s);
    reader.number("backward_s", time.backward_s);
  });
}

void check_times(const std::string& which, const std::vector<PassTime>& times) {
  for (const PassTime& time : times) {
    check_at_least(which + "samples", time.samples, 1);
    check_at_least(which + "units", time.units, 0);
    check_not_negative(which + "forward_s", time.forward_s);
    check_not_negative(which + "backward_s", time.backward_s);
  }
}

void check(const MeasuredPlacement& measured) {
  const auto check_network = [](const char* name, double value) {
    check_not_negative(std::string("placement.") + name, value);
  };
  check_network("update_s_per_byte", measured.update_s_per_byte);
  check_network("copy_s_per_byte", measured.copy_s_per_byte);
  check_network("processor_s_per_byte", measured.network.processor_s_per_byte);
  check_network("exchange_bandwidth_bytes_per_s", measured.network.exchange_bandwidth_bytes_per_s);
  check_network("exchange_latency_s", measured.network.exchange_latency_s);
  check_network("processor_period_s", measured.processor_period_s);
  check_network("process_bytes", measured.process_bytes);
  check_times("placement.loss: ", measured.loss);
  std::set<std::string> names;
  for (const MeasuredPlacement::Layer& layer : measured.layers) {
    const std::string which = "placement.layers '" + layer.name + "': ";
    if (!names.insert(layer.name).second) throw UsageError(which + "is there twice");
    if (layer.times.empty()) throw UsageError(which + "times are missing");
    check_times(which, layer.times);
  }
}

std::string times_text(const char* key, const std::vector<PassTime>& times) {
  std::string text = std::string(key) + " = [\n";
  for (const PassTime& time : times) {
    text += "  {samples = " + std::to_string(time.samples);
    if (time.units > 0) text += ", units = " + std::to_string(time.units);
    text += ", forward_s = " + toml_number(time.forward_s) +
            ", backward_s = " + toml_number(time.backward_s) + "},\n";
  }
  return text + "]\n";
}

}  // namespace

std::string to_toml(const MeasuredPlacement& measured) {
  check(measured);
  std::string text = to_toml(measured.machine) + "[placement]\n";
  const auto number = [&](const char* key, double value) {
    if (value != 0) text += std::string(key) + " = " + toml_number(value) + "\n";
  };
  text += "model = " + toml_string(measured.model) + "\n";
  number("update_s_per_byte", measured.update_s_per_byte);
  number("copy_s_per_byte", measured.copy_s_per_byte);
  number("processor_s_per_byte", measured.network.processor_s_per_byte);
  number("exchange_bandwidth_bytes_per_s", measured.network.exchange_bandwidth_bytes_per_s);
  number("exchange_latency_s", measured.network.exchange_latency_s);
  number("processor_period_s", measured.processor_period_s);
  number("process_bytes", measured.process_bytes);
  if (!measured.loss.empty()) text += times_text("loss", measured.loss);
  for (const MeasuredPlacement::Layer& layer : measured.layers) {
    text += "[[placement.layers]]\nname = " + toml_string(layer.name) + "\n" +
            times_text("times", layer.times);
  }
  return text;
}

MeasuredPlacement measured_placement_of_toml(const std::string& text, const std::string& name) {
  MeasuredPlacement measured;
  measured.machine = machine_of_toml(text, name);
  const std::string file = file_in_messages(name);
  const toml::table root = parse_toml(text, file);
  TomlReader top(root, file, "");
  if (const toml::table* placement = top.table("placement")) {
    TomlReader reader(*placement, file, "placement.");
    reader.text("model", measured.model);
    reader.number("update_s_per_byte", measured.update_s_per_byte);
    reader.number("copy_s_per_byte", measured.copy_s_per_byte);
    reader.number("processor_s_per_byte", measured.network.processor_s_per_byte);
    reader.number("exchange_bandwidth_bytes_per_s",
                  measured.network.exchange_bandwidth_bytes_per_s);
    reader.number("exchange_latency_s", measured.network.exchange_latency_s);
    reader.number("processor_period_s", measured.processor_period_s);
    reader.number("process_bytes", measured.process_bytes);
    read_times(reader, "loss", measured.loss);
    reader.list("layers", [&](TomlReader& layer) {
      MeasuredPlacement::Layer& own = measured.layers.emplace_back();
      layer.text("name", own.name);
      read_times(layer, "times", own.times);
    });
    reader.no_others();
  }
  try {
    check(measured);
  } catch (const UsageError& error) {
    throw UsageError(file + ": " + error.what());
  }
  if (measured.machine.communication.bandwidth_bytes_per_s > 0) {
    const Network network = network_of(measured.machine);
    measured.network.bandwidth_bytes_per_s = network.bandwidth_bytes_per_s;
    measured.network.latency_s = network.latency_s;
  }
  return measured;
}

namespace {

struct UpdateTime {
  double fixed_s = 0, per_sample_s = 0;
};

// The line through two of the times that are of as many units as the first. Neither part is below
// 0.
UpdateTime update_time_of(const std::vector<PassTime>& times) {
  if (times.empty()) return {};
  const PassTime *first = &times.front(), *other = first;
  for (const PassTime& time : times) {
    if (time.units == first->units && time.samples != first->samples) {
      other = &time;
      break;
    }
  }
  const auto seconds = [](const PassTime* time) { return time->forward_s + time->backward_s; };
  const auto samples = [](const PassTime* time) { return static_cast<double>(time->samples); };
  if (other == first) return {0, seconds(first) / samples(first)};
  if (samples(other) > samples(first)) std::swap(first, other);
  const double most = seconds(first) / samples(first);  // nothing fixed
  const double slope = (seconds(first) - seconds(other)) / (samples(first) - samples(other));
  const double each = std::clamp(slope, 0.0, most);
  return {seconds(first) - each * samples(first), each};
}

}  // namespace

void set_update_times(MeasuredPlacement& measured, double parameter_bytes) {
  UpdateTime sum{parameter_bytes * measured.update_s_per_byte, 0};
  double longest = 0;  // for a sample, if nothing were fixed
  const auto add = [&](const std::vector<PassTime>& times) {
    if (times.empty()) return;
    const UpdateTime one = update_time_of(times);
    sum.fixed_s += one.fixed_s;
    sum.per_sample_s += one.per_sample_s;
    const PassTime& first = times.front();
    longest += (first.forward_s + first.backward_s) / static_cast<double>(first.samples);
  };
  for (const MeasuredPlacement::Layer& layer : measured.layers) add(layer.times);
  add(measured.loss);
  Machine& machine = measured.machine;
  machine.knee_samples = 1;
  machine.seconds_per_sample = sum.per_sample_s;
  machine.overhead_s = sum.fixed_s;
  if (sum.per_sample_s > 0) return;
  // Times that scatter more than samples make of them; a machine needs a gamma.
  machine.seconds_per_sample = longest;
  machine.overhead_s = parameter_bytes * measured.update_s_per_byte;
}

void add_times(TrainingCost& cost, const std::string& model, const MeasuredPlacement& measured) {
  if (measured.model != model) {
    throw UsageError("the times of layers are those of the model '" + measured.model +
                     "', not of '" + model + "'");
  }
  for (LayerCost& layer : cost.layers) {
    const MeasuredPlacement::Layer* found = nullptr;
    for (const MeasuredPlacement::Layer& one : measured.layers) {
      if (one.name == layer.name) found = &one;
    }
    if (found == nullptr) {
      throw UsageError("there is no time of the layer '" + layer.name + "' of " + model +
                       ": measure it again");
    }
    layer.times = found->times;
  }
  cost.update_s_per_byte = measured.update_s_per_byte;
  cost.copy_s_per_byte = measured.copy_s_per_byte;
  cost.process_bytes = measured.process_bytes;
  cost.loss = measured.loss;
}

}  // namespace convoy::plan
