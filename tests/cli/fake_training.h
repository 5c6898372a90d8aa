// What `convoy train` is for a test of a plan's measurements: this program itself, called with
// `train RECIPE`, writes rows of metrics as a script says. The recipe's name is the script's path.
//
//   "infinity": 20, "sensitivity": 400   updates to the target at rate 0.1: 20 + 400 / batch
//   "start": 10                          the metric before training; it falls evenly to the target
//   "refused": [1]                       batches that there is no training with
//   "failing": 16                        a batch that ends with status 1, once others have begun
//   "hanging": 8, "most": 3              batches up to this one make so many updates and no more
//   "finest": 5                          the same for runs that are evaluated more often than that
//   "stuck": 8, "rate": 0.4              batches up to this one learn nothing at rates from this on
//   "diverging": 8, "rate": 0.4, "seed": 2   this batch diverges at this rate with seeds from there
//   "slow": "b", "times": 2              updates take so many times as long on this host alone
//   "told": 2                            wait, when told to end, until so many have been told
//
// Runs note "begin BATCH GPU OPTIONS" in SCRIPT.log, "told" when they are told to end, and "end";
// in SCRIPT.cores on how many cores they may run.
#pragma once

#include <string>

namespace convoy::cli {

// Where main() was called with `train`: the exit status. `options` follow the recipe.
int fake_training(const std::string& recipe, const std::string& options);

}  // namespace convoy::cli
