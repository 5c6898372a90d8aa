// gnuplot's SVG, made part of a page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace convoy::train {

// Colors are given to gnuplot as rgb(160, <number>, 0), and become var(--c<number>).
inline constexpr int kMarkedRed = 160;

// The documents in what gnuplot printed.
std::vector<std::string> svg_documents(std::string_view printed);

// Makes an element of a page of one: without what says nothing there, and with the page's colors.
std::string svg_for_page(std::string_view document, const std::string& description);

}  // namespace convoy::train
