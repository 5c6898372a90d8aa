// A certificate authority for one job, and the certificates that it signs.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace convoy::server::transport {

struct CertificateAndKey {
  std::string certificate, key;  // PEM
};

struct Validity {
  std::chrono::system_clock::time_point from, until;
  static Validity days(int count);  // from an hour ago: clocks of hosts differ
};

// A new authority, with a key of its own (P-256). Throws Failure.
CertificateAndKey make_authority(const std::string& name, const Validity& validity);

// A certificate for a process on these hosts (names or IP addresses), as server and as client.
// Throws UsageError without a host, Failure.
CertificateAndKey issue_certificate(const CertificateAndKey& authority, const std::string& name,
                                    const std::vector<std::string>& hosts,
                                    const Validity& validity);

}  // namespace convoy::server::transport
