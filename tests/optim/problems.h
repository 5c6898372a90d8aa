// The test problems of Moré, Garbow and Hillstrom 1981 ("Testing Unconstrained Optimization
// Software"): sums of squares with gradients by dual numbers.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace convoy::optim::test {

struct Loss {
  double value = 0;
  std::vector<double> gradient;
};

struct Problem {
  std::string name;
  double minimum;  // the least value there is, or the local one that the start leads to (as the
                   // paper gives them)
  double other_minimum;
  std::function<Loss(const std::vector<double>&)> loss;
};

std::vector<Problem> problems();

}  // namespace convoy::optim::test
