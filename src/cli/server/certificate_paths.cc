#include <filesystem>
#include <set>

#include "cli/server/certificate_folder.h"

namespace convoy::cli {

namespace fs = std::filesystem;

CertificatePaths certificate_paths(const std::string& folder, const std::string& host) {
  const fs::path at(folder);
  return {(at / "ca.pem").string(), (at / (host + ".pem")).string(),
          (at / (host + ".key")).string()};
}

std::vector<std::string> certified_hosts(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".pem") names.insert(entry.path().stem().string());
  }
  names.erase(kAuthorityFile);
  return {names.begin(), names.end()};
}

std::string only_host(const std::string& folder) {
  const std::vector<std::string> hosts = certified_hosts(folder);
  return hosts.size() == 1 ? hosts.front() : "";
}

}  // namespace convoy::cli
