#include "cli/server/etcd_keys.h"

#include "cli/server/certificate_folder.h"
#include "convoy/base/error.h"
#include "server/coordinator/etcd_store.h"

namespace convoy::cli {

std::string remove_keys(const EtcdKeys& keys) {
  try {
    server::coordinator::EtcdOptions options;
    options.endpoints = keys.members;
    options.prefix = keys.prefix;
    if (!keys.certificates.empty()) {
      const CertificatePaths paths = certificate_paths(keys.certificates, keys.host);
      options.tls = {paths.authority, paths.certificate, paths.key};
    }
    server::coordinator::remove_etcd_keys(options);
    return "";
  } catch (const std::exception& error) {
    return message_of(error);
  }
}

}  // namespace convoy::cli
