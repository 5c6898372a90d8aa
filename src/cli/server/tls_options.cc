#include "cli/server/tls_options.h"

#include <filesystem>
#include <vector>

#include "cli/server/certificate_folder.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

std::optional<server::ClientTls> in_folder(const std::string& folder, const std::string& host) {
  const CertificatePaths paths = certificate_paths(folder, host);
  if (host.empty() || !fs::exists(paths.certificate) || !fs::exists(paths.key)) return std::nullopt;
  return server::ClientTls{paths.authority, paths.certificate, paths.key};
}

server::ClientTls of_this_host(const std::string& folder) {
  const std::string own = host_name();
  for (const std::string& host :
       {own, own.substr(0, own.find('.')), std::string("localhost"), only_host(folder)}) {
    if (const auto tls = in_folder(folder, host)) return *tls;
  }
  throw UsageError("--certs " + folder + " has no certificate of this host: convoy certs " +
                   folder + " --hosts " + own + " makes one");
}

}  // namespace

void add_tls_options(CLI::App& command, TlsOptions& options) {
  CLI::Option* folder =
      command
          .add_option("--certs", options.folder,
                      "Certificates of `convoy certs`: that of this host is shown, and others' are "
                      "to be of the same CA. Without any, connections are plain, and on this host "
                      "alone")
          ->type_name("DIR");
  command.add_option("--tls-ca", options.authority, "The CA's certificate")
      ->type_name("FILE")
      ->excludes(folder);
  command.add_option("--tls-certificate", options.certificate, "The certificate to show")
      ->type_name("FILE")
      ->excludes(folder);
  command.add_option("--tls-key", options.key, "Its key")->type_name("FILE")->excludes(folder);
}

std::optional<server::ClientTls> tls_of(const TlsOptions& options) {
  if (!options.folder.empty()) return of_this_host(options.folder);
  const bool all =
      !options.authority.empty() && !options.certificate.empty() && !options.key.empty();
  const bool none = options.authority.empty() && options.certificate.empty() && options.key.empty();
  if (none) return std::nullopt;
  if (!all)
    throw UsageError(
        "--tls-ca, --tls-certificate and --tls-key go together; --certs DIR names all");
  return server::ClientTls{options.authority, options.certificate, options.key};
}

}  // namespace convoy::cli
