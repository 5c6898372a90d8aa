#include "train/report/page.h"

#include <algorithm>

#include "train/report/style.h"

namespace convoy::train {
namespace {

// Where a picture comes: no text in a page holds these characters.
constexpr char kBegin = '\x02', kEnd = '\x03';

struct Choice {
  const char* name;
  const char* label;
};
Choice choice(Over over) {
  switch (over) {
    case Over::epochs:
      return {"epochs", "epochs"};
    case Over::time:
      return {"time", "time"};
    case Over::steps:
      break;
  }
  return {"steps", "steps"};
}

std::string caption_of(const std::string& caption, const std::vector<Legend>& legend) {
  std::string html = "<figcaption><b>" + caption + "</b>";
  for (const Legend& one : legend) {
    html += " <span class=\"key\"><i style=\"background:var(" + one.color.variable() + ")\"></i>" +
            one.text + "</span>";
  }
  return html + "</figcaption>\n";
}

}  // namespace

Page::Page(const OwnFile& kind, std::string title, Over first)
    : kind_(kind), title_(std::move(title)), first_(first) {}

std::string Page::place(Plot plot) {
  plots_.push_back(std::move(plot));
  return kBegin + std::to_string(plots_.size() - 1) + kEnd;
}

void Page::picture(const std::string& caption, const std::vector<Legend>& legend, Plot plot) {
  body_ += "<figure>" + caption_of(caption, legend) + place(std::move(plot)) + "</figure>\n";
}

void Page::picture(const std::string& caption, const std::vector<Legend>& legend,
                   std::vector<std::pair<Over, Plot>> plots) {
  chosen_ = true;
  body_ += "<figure>" + caption_of(caption, legend);
  for (const Over over : kOver) {
    body_ += std::string("<div class=\"over ") + choice(over).name + "\">";
    const auto found = std::find_if(plots.begin(), plots.end(),
                                    [over](const auto& plot) { return plot.first == over; });
    body_ += found == plots.end() ? "<p class=\"none\">not recorded</p>"
                                  : place(std::move(found->second));
    body_ += "</div>\n";
  }
  body_ += "</figure>\n";
}

std::string Page::finish() {
  const std::vector<std::string> pictures = draw(plots_);
  std::string html =
      std::string("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n") +
      page_mark(kind_) +
      "\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
      title_ + "</title>\n<style>\n" + style_sheet() + "</style>\n</head>\n<body>\n";
  std::string labels;
  for (const Over over : kOver) {
    if (!chosen_) break;
    const std::string id = std::string("over-") + choice(over).name;
    html += "<input type=\"radio\" name=\"over\" id=\"" + id + "\"" +
            (over == first_ ? " checked" : "") + ">\n";
    labels += "<label for=\"" + id + "\">" + choice(over).label + "</label>";
  }
  html += svg_definitions();
  if (chosen_) html += "<nav><span>curves over</span>" + labels + "</nav>\n";
  html += "<main>\n";
  std::size_t at = 0;
  for (std::size_t from; (from = body_.find(kBegin, at)) != std::string::npos;) {
    const std::size_t end = body_.find(kEnd, from);
    const std::string& picture = pictures[std::stoul(body_.substr(from + 1, end - from - 1))];
    html.append(body_, at, from - at);
    html += picture.empty() ? "<p class=\"none\">nothing to draw</p>" : picture;
    at = end + 1;
  }
  html.append(body_, at);
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace convoy::train
