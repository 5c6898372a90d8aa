// The rows of `convoy bench partition` for people.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace convoy::cli {

// Prints the rows of one network, which have to be in ascending order of partitions, and none of
// which is about an error. REQUIRES: at least one row.
void print_partition_rows(const std::vector<nlohmann::ordered_json>& rows);

}  // namespace convoy::cli
