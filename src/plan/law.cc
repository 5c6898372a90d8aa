#include "convoy/plan/law.h"

#include "plan/checks.h"

namespace convoy::plan {
namespace {

void check(const Descent& descent) {
  check_positive("the target loss", descent.target_loss);
  check_positive("lambda", descent.rate);
  if (!(descent.initial_loss > descent.target_loss) || !std::isfinite(descent.initial_loss)) {
    refuse("the initial loss", text_of(descent.initial_loss),
           "above the target loss, " + text_of(descent.target_loss));
  }
}

double updates_without_noise(const Descent& descent) {
  return (1 / descent.target_loss - 1 / descent.initial_loss) / descent.rate;
}

// 1/epsilon^2 + 1/Delta_0^2 + 1/(epsilon Delta_0)
double noise_factor(const Descent& descent) {
  const double target = 1 / descent.target_loss;
  const double initial = 1 / descent.initial_loss;
  return target * target + initial * initial + target * initial;
}

}  // namespace

double updates_to_target(const UpdateLaw& law, double batch) {
  check_finite("N_inf", law.updates_at_infinity);
  check_not_negative("alpha", law.noise_sensitivity);
  check_batch(batch, 1);
  const double updates = law.updates_at_infinity + law.noise_sensitivity / batch;
  if (!(updates > 0)) {
    throw UsageError("the law N_inf = " + text_of(law.updates_at_infinity) + ", alpha = " +
                     text_of(law.noise_sensitivity) + " has no updates left at a batch of " +
                     text_of(batch) + "; it must stay above 0 wherever it is used");
  }
  return updates;
}

double updates_bound(const Descent& descent, double sigma) {
  check(descent);
  if (!(sigma > 0) || !(sigma < descent.target_loss)) {
    refuse("sigma", text_of(sigma),
           "above 0 and below the target loss, " + text_of(descent.target_loss));
  }
  // log((x + sigma) / (x - sigma)) = 2 atanh(sigma / x)
  return 2 * (std::atanh(sigma / descent.target_loss) - std::atanh(sigma / descent.initial_loss)) /
         std::log1p(2 * descent.rate * sigma);
}

double updates_bound_small_noise(const Descent& descent, double sigma) {
  check(descent);
  check_not_negative("sigma", sigma);
  return updates_without_noise(descent) * (1 + sigma * sigma / 3 * noise_factor(descent));
}

UpdateLaw law_of_bound(const Descent& descent, double theta) {
  check(descent);
  check_not_negative("theta", theta);
  const double updates = updates_without_noise(descent);
  return {updates, updates * theta * noise_factor(descent)};
}

}  // namespace convoy::plan
