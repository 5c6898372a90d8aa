#include "cli/plan/trial.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/training/signals.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

constexpr double kPatience = 10;  // seconds for a training that was told to end

// NaN is null in JSON.
double number(const SortedJson& row, const std::string& key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>()
                                                  : std::numeric_limits<double>::quiet_NaN();
}

// This thread, and what it starts, on these cores for a while. Where that is refused, nothing
// changes.
class Bound {
 public:
  explicit Bound(const std::vector<int>& cores) {
    known_ = sched_getaffinity(0, sizeof before_, &before_) == 0;
    bind_to_cores(cores);
  }
  ~Bound() {
    if (known_) sched_setaffinity(0, sizeof before_, &before_);
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  cpu_set_t before_{};
  bool known_ = false;
};

// Its folder is in use for as long as it lives, even if this process is killed.
Child start(const std::string& recipe, std::int64_t threads, const TrialFolder& folder,
            const Place& place) {
  std::vector<std::string> words{fs::read_symlink("/proc/self/exe").string(), "train", recipe};
  const bool alone = place.workers == 1 && place.hosts.empty();
  if (!alone) words.insert(words.end(), {"-n", std::to_string(place.workers)});
  if (!place.hosts.empty()) words.insert(words.end(), {"--hosts", format_hosts(place.hosts)});
  ChildOptions options;
  options.capture_output = true;
  options.input = ChildOptions::Input::nothing;
  if (folder.lock().open()) options.inherited.push_back(folder.lock().get());
  if (!place.gpu.empty()) options.variables.push_back("CUDA_VISIBLE_DEVICES=" + place.gpu);
  // `convoy run` says so to several ranks, and binds each to a core where there are as many cores.
  const std::int64_t own = std::max<std::int64_t>(threads, 1);
  if (alone) options.variables.push_back("OMP_NUM_THREADS=" + std::to_string(own));
  if (place.cores.empty()) return start_child(words, options);
  const Bound bound(place.cores);
  return start_child(words, options);
}

}  // namespace

std::vector<plan::NoiseMeasurement> noise_by_cost(const std::vector<MeasuredNoise>& noise,
                                                  double batch) {
  if (noise.empty()) return {};
  std::vector<double> counts;
  for (const MeasuredNoise& one : noise) counts.push_back(one.batch);
  // The larger of the middle ones: an epoch of two updates may have a rest for its second.
  const auto middle = counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2);
  std::nth_element(counts.begin(), middle, counts.end());
  const double cost = *middle > 0 ? batch / *middle : 1;
  std::vector<plan::NoiseMeasurement> result;
  for (const MeasuredNoise& one : noise) {
    result.push_back(one.measurement);
    result.back().variance *= cost;
  }
  return result;
}

void TrialMetrics::read() {
  std::ifstream file(path_, std::ios::binary);
  if (!file.seekg(done_)) return;
  char buffer[1 << 16];
  while (file.read(buffer, sizeof buffer), file.gcount() > 0) {
    pending_.append(buffer, static_cast<std::size_t>(file.gcount()));
    done_ += file.gcount();
  }
  std::size_t begin = 0;
  for (std::size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    take(pending_.substr(begin, end - begin));
  }
  pending_.erase(0, begin);
}

void TrialMetrics::take(const std::string& line) {
  const SortedJson row = SortedJson::parse(line, nullptr, false);
  if (!row.is_object()) return;
  const std::string kind = row.value("kind", "");
  const auto step = row.value("step", std::int64_t{0});
  if (kind == "evaluation") {
    curve_.emplace_back(step, number(row, metric_));
    // All of it, from the end of the update before: also looking at the weights, and telling.
    const double since = number(row, "elapsed_s") - told_s_;
    const bool known = !updates_.empty() && step == updates_.back().step && std::isfinite(since);
    evaluations_s_ += known ? since : row.value("time_s", 0.0);
    if (known) told_s_ += since;
    evaluated_ = true;
  } else if (kind == "step") {
    Update update{.step = step,
                  .loss = number(row, "loss"),
                  .exposed_communication = number(row, "exposed_communication_s"),
                  .samples = row.value("samples", std::int64_t{0})};
    for (const char* key :
         {"data_s", "forward_s", "backward_s", "exposed_communication_s", "update_s"}) {
      update.seconds += number(row, key);
    }
    told_s_ = number(row, "elapsed_s");
    update.elapsed = told_s_ - evaluations_s_;
    update.after_evaluation = std::exchange(evaluated_, false);
    // By the clock, where it says: something of an update is in none of its phases.
    if (!updates_.empty() && step == updates_.back().step + 1) {
      const double whole = update.elapsed - updates_.back().elapsed;
      if (std::isfinite(whole) && whole > 0) update.seconds = whole;
    }
    updates_.push_back(update);
  } else if (kind == "noise") {
    noise_.push_back({{step, number(row, "gradient_square"), number(row, "gradient_variance")},
                      number(row, "batch")});
  }
}

Trial::Trial(train::Recipe recipe, TrialFolder folder, const Place& place,
             const std::string& metric)
    : folder_(std::move(folder)), metrics_(folder_.path() + "/run/metrics.jsonl", metric) {
  recipe.output.folder = folder_.path() + "/run";
  const std::string file = folder_.path() + "/recipe.toml";
  write_file_atomically(file, train::print_recipe(recipe, false));
  child_ = start(file, recipe.threads, folder_, place);
  for (const Descriptor* descriptor : {&child_.standard_output, &child_.standard_error})
    fcntl(descriptor->get(), F_SETFL, fcntl(descriptor->get(), F_GETFL) | O_NONBLOCK);
}

Trial::~Trial() {
  stop();
  while (!ended_) {
    if (poll()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void Trial::drain() {
  while (read_some(child_.standard_output, output_)) keep_end(output_);
  while (read_some(child_.standard_error, errors_)) keep_end(errors_);
}

bool Trial::poll() {
  if (ended_) return false;
  int status = 0;
  const pid_t gone = waitpid(child_.pid, &status, WNOHANG);
  drain();
  metrics_.read();  // after the look at the process: nothing is missed
  if (gone == child_.pid || (gone < 0 && errno == ECHILD)) {
    ended_ = true;
    status_ = status;
    return false;
  }
  if (stopping_ && !killed_ && seconds_since(told_) > kPatience) {
    killed_ = true;
    ::kill(-child_.pid, SIGKILL);
  }
  return true;
}

void Trial::stop() {
  if (ended_ || stopping_) return;
  stopping_ = true;
  told_ = Clock::now();
  ::kill(child_.pid, SIGTERM);
}

bool Trial::good() const { return stopping_ || (WIFEXITED(status_) && WEXITSTATUS(status_) == 0); }

bool Trial::refused() const {
  constexpr int kUsage = 2;
  return !stopping_ && WIFEXITED(status_) && WEXITSTATUS(status_) == kUsage;
}

bool Trial::diverged() const { return tells_of_divergence(errors_); }

std::string Trial::complaint() const {
  if (WIFSIGNALED(status_)) return "ended by " + describe_signal(WTERMSIG(status_));
  std::string text = errors_;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const std::size_t line = text.rfind('\n');
  if (line != std::string::npos) text.erase(0, line + 1);
  constexpr std::string_view kProgram = "convoy train: ";
  if (text.starts_with(kProgram)) text.erase(0, kProgram.size());
  return text.empty() ? "ended with status " + std::to_string(WEXITSTATUS(status_)) : text;
}

void wait_a_little() {
  if (stop_signal_came()) throw PlanStopped{};
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (stop_signal_came()) throw PlanStopped{};
}

}  // namespace convoy::cli
