// A page of pictures, tables and texts, in one file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/own_files.h"
#include "train/report/plot.h"

namespace convoy::train {

// What a color in a picture stands for. The text is HTML.
struct Legend {
  Color color;
  std::string text;
};

// Over what a curve is drawn; the reader chooses.
enum class Over : std::uint8_t { steps, epochs, time };
inline constexpr Over kOver[] = {Over::steps, Over::epochs, Over::time};

class Page {
 public:
  // `kind`: by what such pages are known (base/own_files.h). `first`: what curves are drawn over
  // until the reader chooses. Texts are HTML throughout.
  Page(const OwnFile& kind, std::string title, Over first = Over::steps);

  void add(const std::string& html) { body_ += html; }
  // Pictures of a row stand beside each other where there is room.
  void begin_row() { body_ += "<div class=\"row\">\n"; }
  void end_row() { body_ += "</div>\n"; }
  void picture(const std::string& caption, const std::vector<Legend>& legend, Plot plot);
  // Adds a picture over each of these; of others the page says that they were not recorded.
  void picture(const std::string& caption, const std::vector<Legend>& legend,
               std::vector<std::pair<Over, Plot>> plots);

  // The whole page. Throws as draw() does.
  std::string finish();

 private:
  std::string place(Plot plot);

  const OwnFile& kind_;
  std::string title_;
  Over first_;
  bool chosen_ = false;  // whether the reader has a choice
  std::string body_;
  std::vector<Plot> plots_;
};

}  // namespace convoy::train
