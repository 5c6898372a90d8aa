// The search for a step along a direction, by losses and slopes alone.
#pragma once

#include <cstdint>
#include <limits>

#include "convoy/optim/batch.h"

namespace convoy::optim {

// Moré and Thuente 1994, "Line Search Algorithms with Guaranteed Sufficient Decrease": steps in an
// interval that holds a step which satisfies the strong Wolfe conditions
//   loss(a) <= loss(0) + decrease a slope(0)   and   |slope(a)| <= curvature |slope(0)|,
// by cubic and quadratic interpolation. Where losses differ by no more than their error, the
// approximate conditions of Hager and Zhang 2005 (section 4.2) take the place of the first one,
// which rounding would keep from ever being true. A loss that is not finite bounds the steps from
// above.
class LineSearch {
 public:
  // The slope is negative, the first step positive.
  LineSearch(const LineSearchOptions& options, double loss, double slope, double first_step);

  enum class Verdict : std::uint8_t {
    go_on,   // step() is the next to try
    accept,  // the step that was told last
    give_up  // best_step() has the least loss; 0 if no step has less than the start
  };

  double step() const { return step_; }
  // Of step(). The slope of a loss that is not finite is not looked at.
  Verdict tell(double loss, double slope);

  double best_step() const { return lowest_.loss < start_.loss ? lowest_.step : 0; }
  int tried() const { return tried_; }

 private:
  struct Point {
    double step = 0;
    double loss = 0;
    double slope = 0;
  };

  bool satisfies(const Point& point) const;
  // Chooses the next step_ from best_ (the end of the interval with the least loss), other_ and
  // `point`, and makes `point` one of these.
  void interpolate(Point& best, Point& other, const Point& point);

  const LineSearchOptions options_;
  const Point start_;
  double step_;
  int tried_ = 0;
  bool bracketed_ = false;
  bool first_stage_ = true;  // no step has had enough of a decrease and a positive slope yet
  Point best_;
  Point other_;
  // Of all that were tried. Before a step has had enough of a decrease, best_ is another one.
  Point lowest_;
  double least_ = 0;  // bounds of step_
  double most_;
  double width_ = std::numeric_limits<double>::infinity();
  double earlier_width_ = std::numeric_limits<double>::infinity();
  double not_finite_ =
      std::numeric_limits<double>::infinity();  // the least step whose loss was not
};

}  // namespace convoy::optim
