// Sums without rounding as they travel.
#pragma once

#include "base/exact_sum.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server {

// The 32-bit digits that say something: some 30 to 100 bytes instead of ExactSum::kBytes.
void write(Writer& writer, const ExactSum& sum);
ExactSum read_exact_sum(Reader& reader);

}  // namespace convoy::server
