#include <cstdlib>
#include <string>
#include <string_view>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/train/checkpoint_folder.h"

namespace {

void parse(const std::string& text) {
  try {
    const convoy::train::Manifest manifest = convoy::train::manifest_from_json(text, "input");
    // What was accepted must survive another round; as text, since not-a-number differs from
    // itself.
    const std::string again = convoy::train::to_json(manifest);
    if (convoy::train::to_json(convoy::train::manifest_from_json(again, "again")) != again) {
      std::abort();
    }
  } catch (const convoy::UsageError&) {
  }
}

}  // namespace

// The input as it is, and with a right checksum, without which nothing gets far.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse(text);
  constexpr std::string_view kSeal = ",\n  \"xxh3\": \"";
  const std::string body = text.substr(0, text.rfind(kSeal));
  const std::uint64_t hash = convoy::xxh3(std::as_bytes(std::span(body)));
  parse(body + std::string(kSeal) + convoy::to_hex(hash) + "\"\n}\n");
  return 0;
}
