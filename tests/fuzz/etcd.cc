// What etcd's JSON gateway may answer: the first byte says to what. What is understood can be used.
#include <cstdint>
#include <string>

#include "convoy/base/error.h"
#include "server/coordinator/etcd_answers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace etcd = convoy::server::coordinator::etcd;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto answer = nlohmann::json::parse(text, nullptr, false);
  if (!answer.is_object()) return 0;  // EtcdClient says so
  try {
    switch (data[0] % 4) {
      case 0:
        etcd::succeeded("etcd", answer);
        break;
      case 1: {
        const auto value = etcd::value("etcd", answer);
        if (value) etcd::term("etcd", "term", value->bytes);
        break;
      }
      case 2: {
        const auto page = etcd::page("etcd", answer, "convoy/k/");
        // Who asks for the next page asks for what is behind this one.
        if (page.more && !page.last.starts_with("convoy/k/")) __builtin_trap();
        break;
      }
      case 3:
        etcd::changed("etcd", answer, 2, "convoy/term");
        break;
    }
  } catch (const convoy::Failure&) {
  }
  return 0;
}
