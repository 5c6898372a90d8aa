// Keys of strategies that add gradients up over ranks which hold the same parameters.
#pragma once

#include <string>
#include <vector>

#include "convoy/parallel/distributed_model.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

std::vector<Option> reducer_keys();
// Appends what is wrong with their values.
void check_reducer_keys(const Recipe& recipe, std::vector<std::string>& problems);
// What they mean. Of a recipe that was checked.
parallel::DistributedOptions distributed_options(const Recipe& recipe);
// The order of sums that a checkpoint has (ReducerOptions::order), if it is of the parameters that
// have gradients now. Otherwise none, and the first update measures it: a layer that had been
// frozen is trained, say, or others are partitioned.
std::vector<std::string> order_that_fits(const std::vector<std::string>& saved,
                                         const torch::nn::Module& network);
// Whether statistics of batch normalization in training are those of all ranks.
bool synchronized_statistics(const Recipe& recipe);

}  // namespace convoy::train
