// This says how many updates training takes, by the size of its mini-batch.
//
// Equations are numbered as in Perrone et al., "Optimal Mini-Batch Size Selection for Fast Gradient
// Descent". All functions of this layer are pure: any thread may call them. All of them throw
// UsageError for an argument that is NaN, infinite or out of its range, naming it.
#pragma once

namespace convoy::plan {

// Equation 2: N_update(M) = N_inf + alpha / M, for one target, data set, network and optimizer.
struct UpdateLaw {
  double updates_at_infinity = 0;  // N_inf, in updates; a fit can find it at 0 or below
  double noise_sensitivity = 0;    // alpha, in updates times samples; >= 0
  bool operator==(const UpdateLaw&) const = default;
};

// Equation 2. The mean number of updates to the target with mini-batches of `batch` samples, >= 1
// (all workers together). UsageError, too, if the law has no updates left at this batch.
double updates_to_target(const UpdateLaw& law, double batch);

// This is what the bound on N_update speaks of. For a convex loss with a gradient of Lipschitz
// constant L, steps of size eta, and w0, w* the first and the best weights:
//   lambda = eta (1 - eta L / 2) / |w0 - w*|^2,   sigma^2 = eta^2 L phi^2 / (2 lambda),
// phi^2 being the variance of the gradient's noise.
struct Descent {
  double initial_loss = 0;  // Delta_0: the loss at first, above the best one
  double target_loss = 0;   // epsilon: the loss to reach, above the best one; < initial_loss
  double rate = 0;          // lambda
};

// Gives the bound on N_update for noise sigma, 0 < sigma < epsilon: as many updates suffice.
double updates_bound(const Descent& descent, double sigma);

// Its expansion for small sigma >= 0:
//   (1/epsilon - 1/Delta_0) (1 + sigma^2/3 (1/epsilon^2 + 1/Delta_0^2 + 1/(epsilon Delta_0))) /
//   lambda
double updates_bound_small_noise(const Descent& descent, double sigma);

// Gives the same with sigma^2/3 = theta / M, as the central limit theorem has it: a law of equation
// 2.
UpdateLaw law_of_bound(const Descent& descent, double theta);

}  // namespace convoy::plan
