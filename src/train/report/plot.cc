#include "train/report/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "convoy/base/error.h"
#include "train/report/gnuplot.h"
#include "train/report/svg.h"

namespace convoy::train {
namespace {

constexpr int kWidth = 440, kHeight = 280;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// Single quotes: nothing in it means anything but the quote itself.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    result += c;
    if (c == '\'') result += c;
  }
  return result + "'";
}

std::string color(Color c) {
  char text[32];
  std::snprintf(text, sizeof text, "lc rgb '#%02x%02x00'", kMarkedRed, c.number);
  return text;
}

std::string text_color() {
  std::string text = color(Color::axis());
  return "tc" + text.substr(2);
}

bool drawable(const Plot& plot, const Series& s, std::size_t i) {
  const auto good = [](double value, bool logarithmic) {
    constexpr double kMost = 1e300;  // gnuplot's is a little more
    return std::fabs(value) < kMost && (!logarithmic || value > 0);
  };
  return good(s.x[i], plot.log_x) && good(s.y[i], plot.log_y) &&
         (s.y2.empty() || good(s.y2[i], plot.log_y));
}

std::string data_of(const Plot& plot, const Series& s) {
  std::string text;
  constexpr double kHalf = 0.36;  // of a bar's width
  for (std::size_t i = 0; i < s.x.size(); ++i) {
    if (!drawable(plot, s, i)) continue;
    text += number(s.x[i]) + " " + number(s.y[i]);
    if (s.style == Series::Style::spans) {
      // So many digits: a span may be a second of a day.
      char ends[80];
      std::snprintf(ends, sizeof ends, " %.10g %.10g ", s.x[i], s.y2[i]);
      text += ends + number(s.y[i] - kHalf) + " " + number(s.y[i] + kHalf) + "\n";
      continue;
    }
    if (!s.y2.empty()) text += " " + number(s.y2[i]);
    if (s.style == Series::Style::bars)
      text += " " + number(s.x[i] - kHalf) + " " + number(s.x[i] + kHalf);
    text += "\n";
  }
  return text;
}

std::string command_of(const Series& s, const std::string& name) {
  const std::string line = color(s.color) + " lw " + number(s.width) + (s.dashed ? " dt 2" : "");
  switch (s.style) {
    case Series::Style::points:
      return name + " using 1:2 with points pt 7 ps 0.45 " + color(s.color);
    case Series::Style::line_and_points:
      return name + " using 1:2 with lines " + line + ", " + name +
             " using 1:2 with points pt 7 ps 0.45 " + color(s.color);
    case Series::Style::band:
      return name + " using 1:2:3 with filledcurves fs solid noborder " + color(s.color);
    case Series::Style::bars:
      return name + " using 1:2:4:5:2:3 with boxxyerror fs solid noborder " + color(s.color);
    case Series::Style::spans:
      return name + " using 1:2:3:4:5:6 with boxxyerror fs solid noborder " + color(s.color);
    case Series::Style::line:
      break;
  }
  return name + " using 1:2 with lines " + line;
}

// gnuplot refuses a range without an extent, and what is not a number.
std::string range(std::optional<double> least, std::optional<double> most) {
  if (most && !std::isfinite(*most)) most.reset();
  if (least && !std::isfinite(*least)) least.reset();
  if (least && most && !(number(*least) != number(*most))) most = *least + 1;
  return "[" + (least ? number(*least) : "*") + ":" + (most ? number(*most) : "*") + "]";
}

std::string axes_of(const Plot& p) {
  std::string text =
      "reset\nset border 3 " + color(Color::axis()) + "\nset grid back " + color(Color::grid()) +
      " lt 1 dt 1 lw 0.7\nset key off\n" + "set xtics nomirror out scale 0.4 " +
      (p.whole_x ? "1 " : "") + text_color() + "\nset ytics nomirror out scale 0.4 " +
      (p.whole_y ? "1 " : "") + text_color() +
      "\nunset mxtics\nunset mytics\nset lmargin 7\nset rmargin 2.6\nset tmargin 0.8\n" +
      "set xlabel " + quoted(p.x_label) + " " + text_color() + " offset 0,0.4\n" +
      "set format y '%.6g'\nset format x '%.6g'\nset xrange " + range(p.x_least, p.x_most) +
      "\nset yrange " + range(p.y_least, p.y_most) + "\n";
  const std::string base = p.halves ? " 2\n" : "\n";
  if (p.log_x) text += "set logscale x" + base;
  if (p.log_y) text += "set logscale y" + base;
  for (const Mark& mark : p.marks) {
    const char* from = mark.where == Mark::Where::top ? "0.96" : "0";
    const char* to = mark.where == Mark::Where::bottom ? "0.04" : "1";
    text += "set arrow from first " + number(mark.x) + ", graph " + from + " to first " +
            number(mark.x) + ", graph " + to + " nohead front " + color(mark.color) +
            (mark.where == Mark::Where::all ? " lw 1 dt 2" : " lw 1.6") + "\n";
  }
  return text;
}

// A picture without a point is no picture for gnuplot.
bool has_points(const Plot& plot) {
  return std::any_of(plot.series.begin(), plot.series.end(), [&](const Series& s) {
    for (std::size_t i = 0; i < s.x.size(); ++i) {
      if (drawable(plot, s, i)) return true;
    }
    return false;
  });
}

std::string script_of(const Plot& plot) {
  std::string data, commands;
  int count = 0;
  for (const Series& s : plot.series) {
    const std::string points = data_of(plot, s);
    if (points.empty()) continue;
    const std::string name = "$d" + std::to_string(count++);
    data += name + " << END\n" + points + "END\n";
    commands += (commands.empty() ? "plot " : ", ") + command_of(s, name);
  }
  return axes_of(plot) + data + commands + "\n";
}

}  // namespace

std::vector<std::string> draw(const std::vector<Plot>& plots) {
  std::vector<std::string> pictures(plots.size());
  std::string script = "set terminal svg size " + std::to_string(kWidth) + "," +
                       std::to_string(kHeight) +
                       " dynamic noenhanced font 'sans-serif,12' linewidth 1 rounded\n";
  std::vector<std::size_t> drawn;
  for (std::size_t i = 0; i < plots.size(); ++i) {
    if (!has_points(plots[i])) continue;
    script += script_of(plots[i]);
    drawn.push_back(i);
  }
  if (drawn.empty()) return pictures;
  const std::vector<std::string> documents = svg_documents(run_gnuplot(script));
  if (documents.size() != drawn.size())
    throw Failure("gnuplot drew " + std::to_string(documents.size()) + " pictures of " +
                  std::to_string(drawn.size()));
  for (std::size_t i = 0; i < drawn.size(); ++i)
    pictures[drawn[i]] = svg_for_page(documents[i], plots[drawn[i]].description);
  return pictures;
}

}  // namespace convoy::train
