// Robust means of groups that scatter alike.
#pragma once

#include <vector>

namespace convoy::plan {

struct GroupMeans {
  std::vector<double> centers;
  double scatter = 0;  // 0 for equal values
  double freedom = 0;  // degrees of freedom that it has
};

// Gives the location of each group, and the scatter of all of them, by Huber's second proposal.
// `known` is a scatter that counts as much as `freedom` degrees of freedom. Each group has a value.
GroupMeans group_means(const std::vector<std::vector<double>>& groups, double known,
                       double freedom);

}  // namespace convoy::plan
