// Certificates: what a side shows, and what it thinks of the other's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace convoy::server::transport {

// PEM files. A side takes certificates that the authority has signed, and no other; its own one has
// to be of the authority that the others have, which is the same unless somebody wants it
// otherwise.
struct TlsFiles {
  std::filesystem::path authority;  // the job's own CA
  std::filesystem::path
      certificate;            // of this process's host, with the chain up to the CA if there is one
  std::filesystem::path key;  // the certificate's, readable by its owner only
};

struct TlsTexts {
  std::string authority, certificate, key;
};

// Throws UsageError that names the file: unreadable, no certificate, or a key of another
// certificate.
TlsTexts read_tls(const TlsFiles& files);

// What is wrong with a peer's certificate (a PEM chain, its own first; empty: it showed none), said
// of the peer: "shows no certificate", "shows a certificate that expired on ...". Nothing if it is
// signed by the authority, valid now and good for the purpose.
enum class Purpose { client, server };
std::optional<std::string> problem_of(const std::string& chain, const std::string& authority,
                                      Purpose purpose);

// Throws UsageError, naming the file and the date, for a certificate that no peer of a listener
// would take: it has expired, say. What read_tls throws as well. One of another authority than that
// of `files` is taken by those who trust that one: returns a line about it. Empty: nothing to say.
std::string check_shown(const TlsFiles& files);

}  // namespace convoy::server::transport
