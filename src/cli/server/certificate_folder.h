// A folder with the certificates of a job: its CA and, for each host, a certificate with its key.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace convoy::cli {

// A host and its other names (or IP addresses): all are in its certificate. The first one names the
// files.
struct HostNames {
  std::vector<std::string> names;
  const std::string& file() const { return names.front(); }
};

// Reads "node1,node2+10.0.0.2+node2.cluster". Throws UsageError naming the entry that is wrong.
std::vector<HostNames> parse_host_names(const std::string& text);

inline constexpr const char* kAuthorityFile = "ca";  // ca.pem, ca.key

// Paths of a host's three files: ca.pem, HOST.pem and HOST.key in the folder.
struct CertificatePaths {
  std::string authority, certificate, key;
};
CertificatePaths certificate_paths(const std::string& folder, const std::string& host);

// Lists the hosts of all certificates in the folder, but not the CA.
std::vector<std::string> certified_hosts(const std::string& folder);
// The host whose certificate is the only one in the folder; empty if there are several, or none.
std::string only_host(const std::string& folder);

struct CertificateOrder {
  std::vector<HostNames> hosts;
  std::string name = "convoy";  // of a new CA
  int days = 365;               // that certificates are good for
  bool renew = false;           // also hosts that have a certificate
  bool new_authority = false;   // in place of the one that there is
};

struct CertificatesMade {
  bool authority = false;              // a new one
  std::vector<std::string> made;       // hosts
  std::vector<std::string> kept;       // hosts that had a certificate
  std::vector<std::string> worthless;  // hosts whose certificate another CA has signed
};

// Makes the folder, its CA and the certificates, as far as they are not there: files and folder for
// their owner alone. Throws UsageError for a folder with half a CA, Failure.
CertificatesMade make_certificates(const std::string& folder, const CertificateOrder& order);

// A certificate file as it is.
struct CertificateState {
  std::string file;                // "node1.pem"
  std::string name;                // common name
  std::vector<std::string> hosts;  // that it is for; none for a CA
  bool authority = false;
  std::chrono::system_clock::time_point until;
  std::string problem;  // empty: good
};

// Looks at all *.pem files, the CA's first. Throws UsageError when there is no ca.pem.
std::vector<CertificateState> check_certificates(const std::string& folder);

}  // namespace convoy::cli
