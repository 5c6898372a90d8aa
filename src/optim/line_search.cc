#include "optim/line_search.h"

#include <algorithm>
#include <cmath>

namespace convoy::optim {
namespace {

// Numbers of Moré and Thuente's own program.
constexpr double kExtrapolateLeast = 1.1;
constexpr double kExtrapolateMost = 4;
constexpr double kShrink = 0.66;
constexpr double kNarrowest = 1e-7;  // relative width of the interval at which the search is over
// How much of the way to a loss that is not finite is tried next.
constexpr double kRetreat = 0.1;
// So near to it, relative, no step is looked for that has all that is wanted of one: there may be
// none.
constexpr double kNearTheBound = 0.1;

}  // namespace

LineSearch::LineSearch(const LineSearchOptions& options, double loss, double slope,
                       double first_step)
    : options_(options),
      start_{0, loss, slope},
      step_(std::min(first_step, options.longest)),
      best_(start_),
      other_(start_),
      lowest_(start_),
      most_(std::min(step_ * (1 + kExtrapolateMost), options.longest)) {}

bool LineSearch::satisfies(const Point& point) const {
  const double enough = start_.loss + options_.decrease * point.step * start_.slope;
  if (point.loss <= enough && std::abs(point.slope) <= -options_.curvature * start_.slope)
    return true;
  const double error = options_.loss_error * std::abs(start_.loss);
  return std::abs(point.loss - start_.loss) <= error &&
         point.slope >= options_.curvature * start_.slope &&
         point.slope <= (2 * options_.decrease - 1) * start_.slope;
}

LineSearch::Verdict LineSearch::tell(double loss, double slope) {
  ++tried_;
  const bool out_of_tries = tried_ >= options_.evaluations;
  if (!std::isfinite(loss) || !std::isfinite(slope)) {
    not_finite_ = std::min(not_finite_, step_);
    if (out_of_tries) return Verdict::give_up;
    step_ = best_.step + kRetreat * (not_finite_ - best_.step);
    return step_ > best_.step && step_ < not_finite_ ? Verdict::go_on : Verdict::give_up;
  }
  const Point point{step_, loss, slope};
  if (satisfies(point)) return Verdict::accept;
  if (loss < lowest_.loss) lowest_ = point;
  if (out_of_tries) return Verdict::give_up;
  const double gain = options_.decrease * start_.slope;
  const double enough = start_.loss + step_ * gain;
  if (step_ >= options_.longest && loss <= enough && slope <= gain) return Verdict::give_up;
  if (first_stage_ && loss <= enough && slope >= 0) first_stage_ = false;
  const double bound = std::min(options_.longest, not_finite_);
  if (first_stage_ && loss <= best_.loss && loss > enough) {
    // The interval then is that of loss(a) - decrease a slope(0), whose minimum has enough of a
    // decrease.
    const auto less = [&](const Point& p) {
      return Point{p.step, p.loss - p.step * gain, p.slope - gain};
    };
    const auto more = [&](const Point& p) {
      return Point{p.step, p.loss + p.step * gain, p.slope + gain};
    };
    Point best = less(best_), other = less(other_);
    interpolate(best, other, less(point));
    best_ = more(best);
    other_ = more(other);
  } else {
    interpolate(best_, other_, point);
  }
  if (bracketed_) {
    const double width = std::abs(other_.step - best_.step);
    if (width >= kShrink * earlier_width_) step_ = best_.step + 0.5 * (other_.step - best_.step);
    earlier_width_ = width_;
    width_ = width;
    least_ = std::min(best_.step, other_.step);
    most_ = std::max(best_.step, other_.step);
  } else {
    least_ = step_ + kExtrapolateLeast * (step_ - best_.step);
    most_ = step_ + kExtrapolateMost * (step_ - best_.step);
  }
  step_ = std::clamp(step_, 0.0, bound);
  if (!bracketed_ && step_ >= not_finite_) {
    if (not_finite_ - best_.step <= kNearTheBound * not_finite_) return Verdict::give_up;
    step_ = best_.step + 0.5 * (not_finite_ - best_.step);
  }
  const bool narrow =
      bracketed_ && (step_ <= least_ || step_ >= most_ || most_ - least_ <= kNarrowest * most_);
  return narrow || step_ <= 0 ? Verdict::give_up : Verdict::go_on;
}

// Section 4 of the paper: four cases, by whether the loss has risen and how the slope has changed.
void LineSearch::interpolate(Point& best, Point& other, const Point& point) {
  const double sign = point.slope * std::copysign(1, best.slope);
  const double distance = point.step - best.step;
  // The cubic through both losses and slopes.
  const double theta = 3 * (best.loss - point.loss) / distance + best.slope + point.slope;
  const double size = std::max({std::abs(theta), std::abs(best.slope), std::abs(point.slope)});
  const double under = (theta / size) * (theta / size) - (best.slope / size) * (point.slope / size);
  const double root = size * std::sqrt(std::max(0.0, under));
  double next;
  if (point.loss > best.loss) {
    // 1: the minimum is between them; the cubic's if it is nearer to the best, else the mean with
    // the quadratic's.
    const double gamma = point.step < best.step ? -root : root;
    const double r =
        ((gamma - best.slope) + theta) / (((gamma - best.slope) + gamma) + point.slope);
    const double cubic = best.step + r * distance;
    const double quadratic =
        best.step + best.slope / ((best.loss - point.loss) / distance + best.slope) / 2 * distance;
    next = std::abs(cubic - best.step) <= std::abs(quadratic - best.step)
               ? cubic
               : cubic + (quadratic - cubic) / 2;
    bracketed_ = true;
  } else if (sign < 0) {
    // 2: the slope has changed its sign; whichever of cubic and secant is farther from the new
    // point.
    const double gamma = point.step > best.step ? -root : root;
    const double r =
        ((gamma - point.slope) + theta) / (((gamma - point.slope) + gamma) + best.slope);
    const double cubic = point.step - r * distance;
    const double secant = point.step + point.slope / (point.slope - best.slope) * -distance;
    next = std::abs(cubic - point.step) > std::abs(secant - point.step) ? cubic : secant;
    bracketed_ = true;
  } else if (std::abs(point.slope) < std::abs(best.slope)) {
    // 3: the slope is less steep; the cubic's minimum only where it lies beyond the new point.
    const double gamma = point.step > best.step ? -root : root;
    const double r =
        ((gamma - point.slope) + theta) / ((gamma + (best.slope - point.slope)) + gamma);
    double cubic = point.step > best.step ? most_ : least_;
    if (r < 0 && gamma != 0) cubic = point.step - r * distance;
    const double secant = point.step + point.slope / (point.slope - best.slope) * -distance;
    if (bracketed_) {
      next = std::abs(cubic - point.step) < std::abs(secant - point.step) ? cubic : secant;
      const double bound = point.step + kShrink * (other.step - point.step);
      next = point.step > best.step ? std::min(bound, next) : std::max(bound, next);
    } else {
      next = std::abs(cubic - point.step) > std::abs(secant - point.step) ? cubic : secant;
      next = std::clamp(next, std::min(least_, most_), std::max(least_, most_));
    }
  } else if (bracketed_) {
    // 4: the slope is as steep or steeper; the cubic between the new point and the interval's other
    // end.
    const double apart = other.step - point.step;
    const double beyond = 3 * (point.loss - other.loss) / apart + other.slope + point.slope;
    const double scale = std::max({std::abs(beyond), std::abs(other.slope), std::abs(point.slope)});
    const double inside =
        (beyond / scale) * (beyond / scale) - (other.slope / scale) * (point.slope / scale);
    const double gamma =
        scale * std::sqrt(std::max(0.0, inside)) * (point.step > other.step ? -1 : 1);
    const double r =
        ((gamma - point.slope) + beyond) / (((gamma - point.slope) + gamma) + other.slope);
    next = point.step + r * apart;
  } else {
    next = point.step > best.step ? most_ : least_;
  }
  if (point.loss > best.loss) {
    other = point;
  } else {
    if (sign < 0) other = best;
    best = point;
  }
  step_ = next;
}

}  // namespace convoy::optim
