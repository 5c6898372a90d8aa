#include "comm/world/group.h"

#include "comm/engine/reserved.h"
#include "comm/internals.h"
#include "comm/world/cores.h"
#include "convoy/base/system.h"

namespace convoy::comm {

Group create_group(std::shared_ptr<Transport> transport, const Engine::Options& options,
                   const std::string& remark) {
  Group group;
  group.engine = std::make_shared<Engine>(transport, options);
  for (const std::string& text : CommunicatorInternals::gather(
           Communicator(group.engine, transport), Kind::join,
           host_name() + '\n' + format_cores(usable_cores()) + '\n' + remark, reserved::kSetUp)) {
    const std::size_t host = text.find('\n'), cores = text.find('\n', host + 1);
    group.hosts.push_back(text.substr(0, host));
    group.cores.push_back(text.substr(host + 1, cores - host - 1));
    group.remarks.push_back(text.substr(cores + 1));
  }
  group.engine->set_hosts(group.hosts);
  group.engine->set_crowded(is_crowded(group.engine->root().rank(), group.hosts, group.cores));
  group.communicator = Communicator(group.engine, transport);
  return group;
}

}  // namespace convoy::comm
