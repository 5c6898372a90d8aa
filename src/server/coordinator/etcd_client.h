// Requests to etcd's JSON gateway.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "convoy/base/error.h"
#include "server/coordinator/etcd_store.h"

namespace convoy::server::coordinator {

// What etcd itself says no to: another member would say the same.
class EtcdRefusal : public Failure {
 public:
  using Failure::Failure;
};

// Threads: any; one request at a time.
class EtcdClient {
 public:
  explicit EtcdClient(const EtcdOptions& options);  // throws UsageError
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // Posts to a path of the gateway ("/v3/kv/range"). The member that answered last is asked first,
  // then each other one, once. Throws EtcdRefusal, and Failure when none answers: whether one has
  // done it nobody knows.
  nlohmann::json post(const std::string& path, const nlohmann::json& request);

 private:
  struct Curl;
  nlohmann::json try_one(const std::string& endpoint, const std::string& path,
                         const std::string& body);

  const EtcdOptions options_;
  std::mutex mutex_;
  std::size_t first_ = 0;  // of the endpoints
  std::unique_ptr<Curl> curl_;
};

}  // namespace convoy::server::coordinator
