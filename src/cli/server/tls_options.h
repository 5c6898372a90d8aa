// The options of commands that connect to a job's processes, or are one of them.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "convoy/server/client.h"

namespace convoy::cli {

struct TlsOptions {
  std::string authority, certificate, key;  // files
  std::string folder;                       // of `convoy certs`
};

// Adds --certs, or --tls-ca, --tls-certificate and --tls-key.
void add_tls_options(CLI::App& command, TlsOptions& options);

// Nothing if none was given: plain connections on this host. With a folder the certificate is that
// of this host (by its name, without its domain, or localhost), or the only one that there is.
// Throws UsageError for some without the others, and for a folder without a fitting certificate.
std::optional<server::ClientTls> tls_of(const TlsOptions& options);

}  // namespace convoy::cli
