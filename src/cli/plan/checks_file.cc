#include "cli/plan/checks_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/own_files.h"
#include "base/toml_text.h"
#include "cli/plan/workplace.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

using SortedJson = nlohmann::json;

constexpr std::int64_t kVersion = 1;

SortedJson line_of(const ChecksHeader& header) {
  return {{"kind", "checks"},        {"version", kVersion},     {"fingerprint", header.fingerprint},
          {"metric", header.metric}, {"target", header.target}, {"machine", header.machine}};
}

SortedJson line_of(const CheckedTraining& t) {
  return {{"kind", "training"},     {"workers", t.workers},
          {"batch", t.batch},       {"learning_rate", t.learning_rate},
          {"seed", t.seed},         {"reached", t.reached},
          {"diverged", t.diverged}, {"updates", t.updates},
          {"seconds", t.seconds},   {"update_s", t.update_s},
          {"machine", t.machine}};
}

// Also refuses what is no number (null) in another way than the file has them.
double number_from_0(const SortedJson& line, const char* key) {
  const auto value = line.at(key).get<double>();
  if (!(value >= 0) || !std::isfinite(value))
    throw UsageError(std::string(key) + " has to be 0 or more");
  return value;
}

std::int64_t count_of(const SortedJson& line, const char* key, std::int64_t least) {
  const SortedJson& value = line.at(key);
  if (!value.is_number_integer() || value.get<std::int64_t>() < least)
    throw UsageError(std::string(key) + " has to be a whole number from " + std::to_string(least) +
                     " on");
  return value.get<std::int64_t>();
}

// Throws Json::exception for what is missing or of another type, UsageError for what can't be.
CheckedTraining training_of(const SortedJson& line) {
  const double rate = number_from_0(line, "learning_rate");
  return {count_of(line, "workers", 1),
          count_of(line, "batch", 1),
          rate,
          line.at("seed").get<std::uint64_t>(),
          line.value("machine", std::string()),
          line.at("reached").get<bool>(),
          line.at("diverged").get<bool>(),
          count_of(line, "updates", 0),
          number_from_0(line, "seconds"),
          number_from_0(line, "update_s")};
}

void check_header(const SortedJson& line, const ChecksHeader& header, const std::string& path) {
  const auto refuse = [&path](const std::string& what) {
    throw UsageError(path + " has trainings " + what + "; move it away to check anew");
  };
  if (line.at("fingerprint") != header.fingerprint) refuse("of another recipe, or other data");
  const auto metric = line.at("metric").get<std::string>();
  const auto target = line.at("target").get<double>();
  if (metric != header.metric || target != header.target) {
    refuse("to " + metric + " " + shortest(target) + ", not to " + header.metric + " " +
           shortest(header.target));
  }
  const auto machine = line.at("machine").get<std::string>();
  if (!same_workplace(machine, header.machine))
    refuse("on " + machine + ", not on " + header.machine);
}

}  // namespace

ChecksFile::ChecksFile(const std::string& path, const ChecksHeader& header, bool resume)
    : file_((check_own_file("--folder", path, kChecksFile), path)) {
  const std::string text = file_.text();
  // Of a check that ended before its first training there is nothing to go on with.
  if (std::count(text.begin(), text.end(), '\n') <= 1) {
    file_.clear();
    append(line_of(header));
    return;
  }
  read(text, header);
  if (!resume && !trainings_.empty()) {
    throw UsageError("there are trainings in " + path +
                     " already: add --resume to go on with them, or move it away");
  }
}

void ChecksFile::read(const std::string& text, const ChecksHeader& header) {
  int count = 0;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    ++count;
    const std::string where = file_.path() + ":" + std::to_string(count) + ": ";
    const SortedJson line = SortedJson::parse(text.substr(begin, end - begin), nullptr, false);
    try {
      if (line.at("kind") != (count == 1 ? "checks" : "training"))
        throw UsageError(where + "a line of this kind does not belong here");
      if (count == 1) {
        if (line.at("version") != kVersion)
          throw UsageError(where + "it is of another version of Convoy; move it away");
        check_header(line, header, file_.path());
      } else {
        try {
          trainings_.push_back(training_of(line));
        } catch (const UsageError& error) {
          throw UsageError(where + "no line of `convoy plan check`: " + error.what());
        }
      }
    } catch (const SortedJson::exception& error) {
      throw UsageError(where + "no line of `convoy plan check`: " + error.what());
    }
  }
}

const CheckedTraining* ChecksFile::find(const CheckedTraining& like, std::int64_t longest) const {
  for (const CheckedTraining& one : trainings_) {
    const bool same = one.workers == like.workers && one.batch == like.batch &&
                      one.learning_rate == like.learning_rate && one.seed == like.seed &&
                      (one.machine.empty() || one.machine == like.machine);
    if (same && (one.reached || one.diverged || one.updates >= longest)) return &one;
  }
  return nullptr;
}

void ChecksFile::add(const CheckedTraining& training) {
  append(line_of(training));
  trainings_.push_back(training);
}

void ChecksFile::append(const nlohmann::json& line) {
  file_.append(line.dump(-1, ' ', false, SortedJson::error_handler_t::replace));
}

}  // namespace convoy::cli
