// Stands for the store in etcd where there is no libcurl.
#include "convoy/base/error.h"
#include "server/coordinator/etcd_store.h"

namespace convoy::server::coordinator {

std::unique_ptr<StateStore> open_etcd_store(EtcdOptions) {
  throw UsageError(
      "this program was built without libcurl and can't speak to etcd; build it with libcurl "
      "(Debian: libcurl4-openssl-dev) or leave --etcd out");
}

void remove_etcd_keys(const EtcdOptions&) { open_etcd_store({}); }

}  // namespace convoy::server::coordinator
