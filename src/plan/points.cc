#include "convoy/plan/points.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "plan/checks.h"

namespace convoy::plan {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kVersion = 1;

// Members of a line, none of them trusted.
double number(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) {
    throw UsageError(std::string(key) + " must be a number");
  }
  return found->get<double>();
}

std::int64_t integer_of(const Json& value, const char* what) {
  if (value.is_number_integer() &&
      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{1} << 62)) {
    return value.get<std::int64_t>();
  }
  throw UsageError(std::string(what) + " must be an integer");
}

std::int64_t integer(const Json& line, const char* key) {
  const auto found = line.find(key);
  return integer_of(found == line.end() ? Json() : *found, key);
}

std::string text(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_string()) {
    throw UsageError(std::string(key) + " must be a text");
  }
  return found->get<std::string>();
}

const Json& list(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_array()) {
    throw UsageError(std::string(key) + " must be a list");
  }
  return *found;
}

void check(const PlanHeader& header) {
  if (header.targets.empty()) throw UsageError("targets must be a list of one or more");
  for (const double target : header.targets) check_finite("a target", target);
  if (std::set<double>(header.targets.begin(), header.targets.end()).size() !=
      header.targets.size()) {
    throw UsageError("targets must differ");
  }
}

void check(const PointRun& run, const PlanHeader& header) {
  check_at_least("batch", run.batch, 1);
  check_positive("learning_rate", run.learning_rate);
  check_at_least("updates", run.updates, 1);
  check_not_negative("seconds", run.seconds);
  std::set<double> seen;
  for (const auto& [target, updates] : run.reached) {
    const auto& all = header.targets;
    if (std::find(all.begin(), all.end(), target) == all.end() || !seen.insert(target).second) {
      refuse("a target reached", shortest(target), "one of the plan's, once");
    }
    check_at_least("the updates to a target", updates, 1);
    if (updates > run.updates) {
      refuse("the number of updates to a target", std::to_string(updates),
             "at most those of the run, " + std::to_string(run.updates));
    }
  }
}

void check(const TimeSample& time) {
  check_at_least("samples", time.samples, 1);
  check_positive("seconds", time.seconds);
}

void check(const CommunicationSample& time) {
  check_at_least("workers", time.workers, 2);
  check_positive("seconds", time.seconds);
  check_at_least("batch", time.batch, 0);
  check_not_negative("update_s", time.update_s);
  check_at_least("host_workers", time.host_workers, 0);
}

// By Stop.
constexpr std::array<const char*, 4> kStops{"", "limit", "hopeless", "budget"};

Stop stop_of(const Json& line) {
  if (!line.contains("stopped")) return Stop::none;
  const std::string name = text(line, "stopped");
  for (std::size_t i = 1; i < kStops.size(); ++i) {
    if (name == kStops[i]) return static_cast<Stop>(i);
  }
  refuse("stopped", "'" + name + "'", "limit, hopeless or budget");
}

void check_machine(const std::string& name) {
  if (name.empty()) throw UsageError("the name of a machine is empty; it must say which it is");
}

PlanHeader header_of(const Json& line) {
  if (text(line, "kind") != "plan") {
    throw UsageError("the first line must be the plan's, of kind 'plan'");
  }
  const std::int64_t version = integer(line, "version");
  if (version != kVersion) {
    refuse("version", std::to_string(version), "1: the file is of another version of Convoy");
  }
  PlanHeader header{text(line, "fingerprint"), text(line, "metric"), {}};
  for (const Json& target : list(line, "targets")) {
    if (!target.is_number()) throw UsageError("targets must be numbers");
    header.targets.push_back(target.get<double>());
  }
  check(header);
  return header;
}

PointRun run_of(const Json& line) {
  PointRun run;
  run.batch = integer(line, "batch");
  run.learning_rate = number(line, "learning_rate");
  const auto seed = line.find("seed");
  if (seed == line.end() || !seed->is_number_unsigned()) {
    throw UsageError("seed must be an integer of 0 or more");
  }
  run.seed = seed->get<std::uint64_t>();
  run.updates = integer(line, "updates");
  run.seconds = number(line, "seconds");
  const auto diverged = line.find("diverged");
  if (diverged == line.end() || !diverged->is_boolean()) {
    throw UsageError("diverged must be true or false");
  }
  run.diverged = diverged->get<bool>();
  for (const Json& pair : list(line, "reached")) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number()) {
      throw UsageError("reached must be a list of [target, updates]");
    }
    run.reached.emplace_back(pair[0].get<double>(), integer_of(pair[1], "updates in reached"));
  }
  run.stopped = stop_of(line);
  return run;
}

// Where a run is among the points.
using PlacesOfRuns = std::map<std::tuple<std::int64_t, double, std::uint64_t>, std::size_t>;

void add_line(const Json& line, PlanPoints& points, PlacesOfRuns& places) {
  const std::string kind = text(line, "kind");
  if (kind == "run") {
    const PointRun run = run_of(line);
    check(run, points.header);
    const auto [place, is_new] =
        places.try_emplace({run.batch, run.learning_rate, run.seed}, points.runs.size());
    if (is_new) {
      points.runs.push_back(run);
    } else {
      points.runs[place->second] = run;
    }
  } else if (kind == "machine") {
    const std::string name = text(line, "name");
    check_machine(name);
    points.move_to(name);
  } else if (kind == "time") {
    const TimeSample time{integer(line, "samples"), number(line, "seconds")};
    check(time);
    points.times.push_back(time);
  } else if (kind == "communication") {
    CommunicationSample time{integer(line, "workers"), number(line, "seconds")};
    if (line.contains("batch")) time.batch = integer(line, "batch");
    if (line.contains("update_s")) time.update_s = number(line, "update_s");
    if (line.contains("host_workers")) time.host_workers = integer(line, "host_workers");
    check(time);
    points.communication.push_back(time);
  } else {
    throw UsageError("'" + kind +
                     "' is no kind of point; there are run, machine, time and communication");
  }
}

std::string line_of(const PlanHeader& header) {
  return Json{{"kind", "plan"},
              {"version", kVersion},
              {"fingerprint", header.fingerprint},
              {"metric", header.metric},
              {"targets", header.targets}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string line_of(const PointRun& run) {
  Json reached = Json::array();
  for (const auto& [target, updates] : run.reached) {
    reached.push_back(Json::array({target, updates}));
  }
  Json line{{"kind", "run"},
            {"batch", run.batch},
            {"learning_rate", run.learning_rate},
            {"seed", run.seed},
            {"updates", run.updates},
            {"seconds", run.seconds},
            {"diverged", run.diverged},
            {"reached", reached}};
  if (run.stopped != Stop::none) line["stopped"] = kStops.at(static_cast<std::size_t>(run.stopped));
  return line.dump();
}

}  // namespace

std::vector<UpdateRun> PlanPoints::updates(double target) const {
  const auto& all = header.targets;
  if (std::find(all.begin(), all.end(), target) == all.end()) {
    std::string known;
    for (const double one : all) known += (known.empty() ? "" : ", ") + shortest(one);
    throw UsageError("the target " + shortest(target) + " was not measured; there are " + known);
  }
  std::vector<UpdateRun> result;
  for (const PointRun& run : runs) {
    UpdateRun towards{run.batch, run.learning_rate, run.seed, run.updates, false, run.diverged};
    for (const auto& [reached, updates] : run.reached) {
      if (reached != target) continue;
      // A run that diverges later has reached it all the same.
      towards.updates = updates;
      towards.reached = true;
      towards.diverged = false;
    }
    result.push_back(towards);
  }
  return result;
}

const PointRun* PlanPoints::find(std::int64_t batch, double learning_rate,
                                 std::uint64_t seed) const {
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const PointRun& run) {
    return run.batch == batch && run.learning_rate == learning_rate && run.seed == seed;
  });
  return found == runs.end() ? nullptr : &*found;
}

void PlanPoints::put(const PointRun& run) {
  const PointRun* before = find(run.batch, run.learning_rate, run.seed);
  if (before == nullptr) {
    runs.push_back(run);
  } else {
    runs[static_cast<std::size_t>(before - runs.data())] = run;
  }
}

void PlanPoints::move_to(const std::string& other) {
  if (other == machine) return;
  if (!machine.empty()) {
    elsewhere[machine] = {std::move(times), std::move(communication)};
    MachineTimes here = std::move(elsewhere[other]);
    elsewhere.erase(other);
    times = std::move(here.times);
    communication = std::move(here.communication);
  }
  machine = other;
}

PlanPoints points_of_text(const std::string& text, const std::string& name) {
  const std::string file = std::filesystem::path(name).filename().string();
  PlanPoints points;
  PlacesOfRuns places;  // there may be many
  std::size_t begin = 0;
  int count = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       begin = end + 1, end = text.find('\n', begin)) {
    ++count;
    try {
      const Json line =
          Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                      text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
      if (!line.is_object()) throw UsageError("a line must be an object of JSON");
      if (count == 1) {
        points.header = header_of(line);
      } else {
        add_line(line, points, places);
      }
    } catch (const UsageError& error) {
      throw UsageError(file + ":" + std::to_string(count) + ": " + error.what());
    }
  }
  if (count == 0) throw UsageError(file + ": there is no whole line, so no plan, in it");
  return points;
}

PointsFile::PointsFile(const std::string& path, const PlanHeader& header)
    : file_((check(header), path)) {  // a wrong header makes no file
  const std::string text = file_.text();
  if (text.empty()) {
    file_.append(line_of(header));
    points_.header = header;
    return;
  }
  points_ = points_of_text(text, path);
  if (points_.header == header) return;
  const char* what = points_.header.fingerprint != header.fingerprint ? "fingerprint"
                     : points_.header.metric != header.metric         ? "metric"
                                                                      : "targets";
  throw UsageError(path + " has points of another plan (its " + what +
                   " differs); name another folder, or remove it");
}

void PointsFile::add(const PointRun& run) {
  check(run, points_.header);
  file_.append(line_of(run));
  points_.put(run);
}

void PointsFile::move_to(const std::string& machine) {
  check_machine(machine);
  if (machine == points_.machine) return;
  file_.append(Json{{"kind", "machine"}, {"name", machine}}.dump(-1, ' ', false,
                                                                 Json::error_handler_t::replace));
  points_.move_to(machine);
}

void PointsFile::add(const TimeSample& time) {
  check(time);
  file_.append(Json{{"kind", "time"}, {"samples", time.samples}, {"seconds", time.seconds}}.dump());
  points_.times.push_back(time);
}

void PointsFile::add(const CommunicationSample& time) {
  check(time);
  Json line{{"kind", "communication"}, {"workers", time.workers}, {"seconds", time.seconds}};
  if (time.batch > 0) line["batch"] = time.batch;
  if (time.update_s > 0) line["update_s"] = time.update_s;
  if (time.host_workers > 0) line["host_workers"] = time.host_workers;
  file_.append(line.dump());
  points_.communication.push_back(time);
}

}  // namespace convoy::plan
