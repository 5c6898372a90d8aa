#include "train/strategies/updates.h"

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <memory>

#include "convoy/base/random.h"
#include "convoy/parallel/clip.h"
#include "train/compute/batch_stage.h"
#include "train/fault/watch.h"

namespace convoy::train {

double Phases::end_of(const char* phase, Clock::time_point start) const {
  const auto now = Clock::now();
  if (timeline_ != nullptr) timeline_->add(Timeline::kTraining, phase, start, now);
  return std::chrono::duration<double>(now - start).count();
}

void make_updates(TrainerContext& context, Tally& tally, Phases& phases,
                  const std::function<void(Timeline*)>& follow,
                  const std::function<StepReport(const data::Batch&)>& step, bool ahead) {
  Prefetch samples(ahead ? context.compute().stage() : std::shared_ptr<BatchStage>(),
                   context.samples());
  while (true) {
    if (Timeline* const timeline = context.timeline(); timeline != phases.timeline()) {
      phases.set_timeline(timeline);
      follow(timeline);
    }
    const auto start = Clock::now();
    const data::Batch* batch = samples.next();
    if (batch == nullptr) continue;  // the next epoch begins
    const double waited = phases.end_of("data", start);
    const auto asked = Clock::now();
    const bool ask = tally.long_updates();
    if (ask && tally.told_to_stop(context.requests())) return context.stopped();
    const double answered = ask ? phases.end_of("exposed communication", asked) : 0;
    samples.look_ahead();
    StepReport report = step(*batch);
    report.data_s = waited;
    report.communication_s += answered;
    phases.end_of("step", start);
    if (!context.updated(report)) return;
  }
}

std::vector<at::Tensor> tensors_of(const std::vector<parallel::NamedTensor>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

std::vector<std::string> names_of(const std::vector<parallel::NamedTensor>& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  return names;
}

bool has_finite_numbers(const StepReport& report) {
  return std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
}

bool may_update(StepReport& report, double norm,
                const std::vector<parallel::NamedTensor>& parameters) {
  report.gradient_norm = norm;
  if (!std::isfinite(norm) && report.not_finite.empty())
    report.not_finite = parallel::last_not_finite(parameters);
  return has_finite_numbers(report) && FaultWatch::current() == nullptr;
}

void seed_generator(const TrainerContext& context) {
  torch::manual_seed(RandomStream(static_cast<std::uint64_t>(context.recipe().seed),
                                  static_cast<std::uint64_t>(context.moment().step),
                                  static_cast<std::uint64_t>(context.world().rank()))());
}

}  // namespace convoy::train
