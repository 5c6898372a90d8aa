// Pictures: gnuplot's SVG, with colors that a page's style sheet chooses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace convoy::train {

// Names of variables of the style sheet; see page.cc. A series has a color and a pale one for what
// lies behind it.
struct Color {
  int number = 0;
  static Color series(std::size_t i) { return {16 + static_cast<int>(i % 8)}; }
  static Color pale(std::size_t i) { return {32 + static_cast<int>(i % 8)}; }
  static Color phase(std::size_t i) { return {48 + static_cast<int>(i)}; }
  static Color axis() { return {1}; }
  static Color grid() { return {2}; }
  static Color mark() { return {3}; }     // what the eye is to find
  static Color ideal() { return {4}; }    // what could be at best
  static Color written() { return {5}; }  // checkpoints
  // "--c16"
  std::string variable() const { return "--c" + std::to_string(number); }
};

// Only numbers and labels of ours go to gnuplot; names of runs and files stand in the page.
struct Series {
  enum class Style : std::uint8_t { line, points, line_and_points, band, bars, spans };
  Style style = Style::line;
  Color color;
  std::vector<double> x, y;
  std::vector<double> y2;  // bands and bars: from y to y2; spans: from x to this, at height y
  double width = 1.5;
  bool dashed = false;
};

// A short or a long vertical line.
struct Mark {
  enum class Where : std::uint8_t { bottom, top, all };
  double x = 0;
  Where where = Where::all;
  Color color;
};

struct Plot {
  std::string description;  // for those who don't see it
  std::string x_label;      // what y is stands in the caption
  bool log_x = false, log_y = false;
  bool halves = false;  // logarithmic axes have powers of 2, not of 10
  std::optional<double> x_least, x_most, y_least, y_most;
  bool whole_x = false;  // x counts: only whole numbers at the axis
  bool whole_y = false;  // the same of y
  std::vector<Mark> marks;
  std::vector<Series> series;
};

// One <svg> element for each, without the definitions that all share. Points that are not finite
// (with a logarithmic axis: not positive) are left out. Throws Failure when gnuplot can't be
// started or fails.
std::vector<std::string> draw(const std::vector<Plot>& plots);

// The definitions: to stand once in a page before the first picture.
std::string svg_definitions();

}  // namespace convoy::train
