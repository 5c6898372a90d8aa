// Numbers as people read and write them.
#pragma once

#include <cstdint>
#include <string>

namespace convoy {

// "4 B", "64 KiB", "93.5 MiB": binary units, three significant digits.
std::string format_bytes(std::uint64_t bytes);

// "850 us", "12.3 ms", "4.20 s", "2 min 5 s", "3 h 12 min", "5 d 7 h", "2.3 years", "inf".
std::string format_seconds(double seconds);

// Reads "93MiB", "64k", "1.5 GB", "512": k, M, G with or without i and B; powers of 1024 with an i
// or without a B, powers of 1000 otherwise. Throws UsageError naming the text.
std::uint64_t parse_bytes(const std::string& text);

}  // namespace convoy
