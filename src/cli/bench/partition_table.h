// The rows of `convoy bench partition` for people.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace convoy::cli {

// Of one network, ascending by partitions; without those that are about errors. At least one.
void print_partition_rows(const std::vector<nlohmann::ordered_json>& rows);

}  // namespace convoy::cli
