// Texts and numbers in a page.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/report/run_record.h"

namespace convoy::train {

// So that nothing in it is markup, in an element or between quotes. Control characters and bytes
// that are no UTF-8 become U+FFFD.
std::string escaped(std::string_view text);

// "60,000"
std::string count_text(double number);
// Four digits that count: "0.04312", "1,523".
std::string number_text(double number);
// "1 min 5 s"; "?" for what is not a number.
std::string time_text(double seconds);
// "98.14%", "0.0591"
std::string metric_text(const MetricInfo& metric, double value);
// "<table>" with a head, in an element that scrolls by itself. Cells are HTML; the first of a row
// is its head.
std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows);
// Names with values, both HTML; those without a value are left out.
std::string facts(const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace convoy::train
