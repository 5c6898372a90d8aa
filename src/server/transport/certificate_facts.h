// What stands in a certificate.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace convoy::server::transport {

struct CertificateFacts {
  std::string name;                // the subject's common name
  std::vector<std::string> hosts;  // names and IP addresses that it is for
  bool authority = false;          // may sign others
  std::chrono::system_clock::time_point from, until;
};

// Of the first certificate of a PEM text; nothing if there is none.
std::optional<CertificateFacts> facts_of(const std::string& text);

// Whether the PEM key is the certificate's.
bool is_key_of(const std::string& key, const std::string& certificate);

}  // namespace convoy::server::transport
