// Bytes in JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/wire/writer.h"

namespace convoy::server::coordinator {

// RFC 4648, section 4, with padding.
std::string to_base64(std::span<const std::byte> bytes);
std::string to_base64(std::string_view text);
// Throws UsageError for anything else.
Bytes from_base64(std::string_view text);

}  // namespace convoy::server::coordinator
