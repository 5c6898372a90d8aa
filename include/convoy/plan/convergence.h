// The time to a target, the mini-batch for which it is least, and how it scales with workers.
//
// Equations are numbered as in Perrone et al.; see law.h for threads and errors. "Ideal" functions
// take the mini-batch as a real number and let it divide evenly, as the paper does; the others
// take whole samples and count the worker that has most of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "convoy/plan/law.h"
#include "convoy/plan/machine.h"

namespace convoy::plan {

// Equation 1: T_C = N_update(M) T_update(M, P), in seconds, with ceil(M/P) samples setting the
// pace. UsageError for P > M.
double convergence_seconds(const UpdateLaw& law, const Machine& machine, std::int64_t batch,
                           std::int64_t workers);

// Equation 5, and 7 for P = 1: (N_inf + alpha/M) (gamma max(M/P, M_T) + Delta(P)). 1 <= P <= M.
// Here as in all that follows gamma, and the overhead, are 1 + c(P) times as long where the machine
// has contention.
double ideal_convergence_seconds(const UpdateLaw& law, const Machine& machine, double batch,
                                 std::int64_t workers);

// Equations 8 (P = 1) and 9: max(sqrt(alpha Delta P / (N_inf gamma)), M_T P), with Delta =
// Delta(P): the paper's delta stands for whatever communication costs at this P. At least P, since
// each worker needs a sample. UsageError for N_inf <= 0, where no batch is the best, and for a
// machine with a table.
double optimal_batch(const UpdateLaw& law, const Machine& machine, std::int64_t workers);

// Gives the condition of equation 10, P < alpha delta / (gamma M_T^2 N_inf): communication decides
// about the best batch, which is then above M_T samples per worker.
bool communication_decides(const UpdateLaw& law, const Machine& machine, std::int64_t workers);

// Equation 10: the least time to the target, at optimal_batch(). Where that is held at P by the
// need of a sample for each worker (M_T < 1), the time at P.
double optimal_seconds(const UpdateLaw& law, const Machine& machine, std::int64_t workers);

struct BatchTime {
  std::int64_t batch = 0;
  double seconds = 0;
};

// Gives the whole mini-batch up to `largest` samples (>= P) with the least time of equation 1, the
// smaller of equals. It is `largest` or a multiple of P, as any other batch wastes what the workers
// with fewer samples could do. Takes any machine, and any law with updates left at P samples; the
// search ends, too, with a machine's table, and before a falling law has no updates left.
BatchTime best_batch(const UpdateLaw& law, const Machine& machine, std::int64_t workers,
                     std::int64_t largest);

// These are the three ways to use P workers. Strong: the batch that is best for one worker; nothing
// where it has fewer samples than there are workers. Weak: that batch for each worker; nothing
// where it is above `largest`, or the law has no updates left. Optimal: best_batch().
struct Scaling {
  std::int64_t workers = 1;
  std::optional<BatchTime> strong;
  std::optional<BatchTime> weak;
  BatchTime optimal;
};
std::vector<Scaling> scaling(const UpdateLaw& law, const Machine& machine,
                             const std::vector<std::int64_t>& workers, std::int64_t largest);

}  // namespace convoy::plan
