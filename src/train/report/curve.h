// Curves of many points, thinned for a picture.
#pragma once

#include <cstddef>
#include <vector>

namespace convoy::train {

struct Curve {
  std::vector<double> x, y;
};

// Keeps of the points that are finite, in the order of x, no more than 4 for each of `pieces` equal
// parts of the range of x: the first, the least, the greatest and the last of it. A picture with a
// pixel or more for each piece looks as with all points: no peak is lost.
Curve thin(const std::vector<double>& x, const std::vector<double>& y, std::size_t pieces);

// Means over `pieces` equal parts of the range of x, at the mean of their x: the course of a curve
// that scatters. Empty for less than two points in a piece: there it says nothing more.
Curve means(const std::vector<double>& x, const std::vector<double>& y, std::size_t pieces);

// The middle of the finite ones; not a number if there are none.
double median_of(std::vector<double> values);

}  // namespace convoy::train
