// A StateStore in etcd.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/coordinator/state_store.h"
#include "server/transport/tls.h"

namespace convoy::server::coordinator {

struct EtcdOptions {
  // "http://host:port" or "https://host:port" of members, any number; the next one is asked when
  // one doesn't answer. Beyond loopback only https, with `tls`.
  std::vector<std::string> endpoints;
  std::string prefix = "convoy/";  // of all keys: one for each job
  std::optional<transport::TlsFiles> tls;
  std::chrono::milliseconds connect_timeout{1000};  // of one try
  std::chrono::milliseconds timeout{3000};
};

// Through etcd's JSON gateway (version 3.4 or later): ranges and transactions, which compare the
// revisions of keys and the term. Throws UsageError for bad options, and in a program that was
// built without libcurl.
std::unique_ptr<StateStore> open_etcd_store(EtcdOptions options);

// Removes all keys of the prefix at once, which must end with '/'. A coordinator that is still at
// work there can write nothing more. Throws as open_etcd_store() does, and Failure.
void remove_etcd_keys(const EtcdOptions& options);

}  // namespace convoy::server::coordinator
