#include "train/report/svg.h"

#include <charconv>
#include <cstdlib>

#include "train/report/html.h"
#include "train/report/plot.h"

namespace convoy::train {
namespace {

// Removes every part from `begin` to `end`.
void remove_all(std::string& text, std::string_view begin, std::string_view end) {
  std::string kept;
  std::size_t at = 0;
  while (true) {
    const std::size_t from = text.find(begin, at);
    const std::size_t to = from == std::string::npos ? from : text.find(end, from);
    if (to == std::string::npos) break;
    kept.append(text, at, from - at);
    at = to + end.size();
  }
  kept.append(text, at);
  text.swap(kept);
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  std::string kept;
  std::size_t at = 0;
  for (std::size_t from; (from = text.find(what, at)) != std::string::npos;
       at = from + what.size()) {
    kept.append(text, at, from - at);
    kept.append(by);
  }
  kept.append(text, at);
  text.swap(kept);
}

// Groups in which nothing is drawn.
void remove_empty_groups(std::string& text) {
  constexpr std::string_view kBegin = "<g fill=\"none\"", kEnd = "</g>";
  std::string kept;
  std::size_t at = 0;
  while (true) {
    const std::size_t from = text.find(kBegin, at);
    const std::size_t close = from == std::string::npos ? from : text.find('>', from);
    if (close == std::string::npos) break;
    const std::size_t inside = text.find_first_not_of(" \t\n", close + 1);
    const bool empty = inside != std::string::npos && text.compare(inside, kEnd.size(), kEnd) == 0;
    kept.append(text, at, (empty ? from : close + 1) - at);
    at = empty ? inside + kEnd.size() : close + 1;
  }
  kept.append(text, at);
  text.swap(kept);
}

// rgb(160,  16,   0)
void name_colors(std::string& text) {
  const std::string begin = "rgb(" + std::to_string(kMarkedRed) + ",";
  std::string kept;
  std::size_t at = 0;
  for (std::size_t from; (from = text.find(begin, at)) != std::string::npos;) {
    const std::size_t end = text.find(')', from);
    if (end == std::string::npos) break;
    const int number = std::atoi(text.c_str() + from + begin.size());
    kept.append(text, at, from - at);
    kept += "var(" + Color{number}.variable() + ")";
    at = end + 1;
  }
  kept.append(text, at);
  text.swap(kept);
}

}  // namespace

std::vector<std::string> svg_documents(std::string_view printed) {
  constexpr std::string_view kBegin = "<svg", kEnd = "</svg>";
  std::vector<std::string> documents;
  std::size_t at = 0;
  while (true) {
    const std::size_t from = printed.find(kBegin, at);
    const std::size_t to = from == std::string_view::npos ? from : printed.find(kEnd, from);
    if (to == std::string_view::npos) return documents;
    at = to + kEnd.size();
    documents.emplace_back(printed.substr(from, at - from));
  }
}

std::string svg_for_page(std::string_view document, const std::string& description) {
  std::string text(document);
  const std::size_t box = text.find("viewBox=\"");
  const std::size_t size = text.find('"', box + 9);
  const std::string view = text.substr(box, size + 1 - box);
  text.erase(0, text.find('>') + 1);
  remove_all(text, "<title>", "</title>");
  remove_all(text, "<desc>", "</desc>");
  remove_all(text, "<defs>", "</defs>");
  replace_all(text, " id=\"gnuplot_canvas\"", "");
  remove_empty_groups(text);
  name_colors(text);
  replace_all(text,
              "<g fill=\"none\" color=\"black\" stroke=\"currentColor\" stroke-width=\"1.00\"",
              "<g class=\"g\"");
  replace_all(text, " stroke-linecap=\"round\" stroke-linejoin=\"round\"", "");
  replace_all(text, " font-family=\"sans-serif\" font-size=\"12.00\" ", "");
  replace_all(text, " class=\"gridline\"", "");
  replace_all(text, "\t", "");
  replace_all(text, "\n\n", "\n");
  replace_all(text, " \n", "\n");
  return "<svg " + view + " role=\"img\" aria-label=\"" + escaped(description) + "\">" + text;
}

std::string svg_definitions() {
  return "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
         "<circle id=\"gpPt6\" r=\"1\" fill=\"currentColor\"/></defs></svg>\n";
}

}  // namespace convoy::train
