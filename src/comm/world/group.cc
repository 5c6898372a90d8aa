#include "comm/world/group.h"

#include "comm/engine/reserved.h"
#include "comm/internals.h"
#include "convoy/base/system.h"

namespace convoy::comm {
Group create_group(std::shared_ptr<Transport> transport, const Engine::Options& options,
                   const std::string& remark) {
  Group group;
  group.engine = std::make_shared<Engine>(transport, options);
  for (const std::string& text :
       CommunicatorInternals::gather(Communicator(group.engine, transport), Kind::join,
                                     host_name() + '\n' + remark, reserved::kSetUp)) {
    const std::size_t end = text.find('\n');
    group.hosts.push_back(text.substr(0, end));
    group.remarks.push_back(text.substr(end + 1));
  }
  group.engine->set_hosts(group.hosts);
  group.communicator = Communicator(group.engine, transport);
  return group;
}

}  // namespace convoy::comm
