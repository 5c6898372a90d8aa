#include "server/transport/hello.h"

#include <fstream>
#include <vector>

#include "convoy/base/error.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server::transport {
namespace {

constexpr std::uint32_t kMagic = 0x59564e43;  // "CNVY"
constexpr std::size_t kLongestText = 4096;
constexpr std::size_t kLongest = 6 * kLongestText;

void write(Writer& to, const std::string& text) {
  if (text.size() > kLongestText)
    throw UsageError("a name of " + std::to_string(text.size()) + " characters; at most " +
                     std::to_string(kLongestText) + " can be sent");
  to.text(text);
}

void write(Writer& to, const Limits& limits) {
  to.u64(limits.largest_message);
  to.u64(limits.memory);
  to.u64(limits.small_memory);
}
Limits read_limits(Reader& from) {
  Limits limits;
  limits.largest_message = from.u64();
  limits.memory = from.u64();
  limits.small_memory = from.u64();
  constexpr std::uint64_t kMost = 1ull << 60;  // sums with overheads stay numbers
  if (limits.memory > kMost || limits.small_memory > kMost) from.refuse("limits that can't be");
  limits.check();
  return limits;
}

// What `read` makes of a message of a peer, whose mistakes are failures of the world.
template <class Read>
auto decoded(const Message& message, const std::string& what, const Read& read) {
  if (message.size() > kLongest)
    throw Failure(what + " of " + std::to_string(message.size()) + " bytes");
  const std::vector<std::byte> bytes = message.gather();
  Reader from(bytes, what);
  try {
    if (from.u32() != kMagic) from.refuse("this is not Convoy's");
    return read(from);
  } catch (const UsageError& error) {
    throw Failure(error.what());
  }
}

}  // namespace

Message Hello::encode() const {
  Writer to;
  to.u32(kMagic);
  to.u32(version);
  write(to, identity.job);
  write(to, identity.fingerprint);
  write(to, name);
  write(to, boot);
  write(to, limits);
  return Message::of(to.take());
}

Hello Hello::decode(const Message& message) {
  return decoded(message, "a hello", [](Reader& from) {
    Hello hello;
    hello.version = from.u32();
    if (hello.version != kProtocolVersion) return hello;
    hello.identity.job = from.text(kLongestText);
    hello.identity.fingerprint = from.text(kLongestText);
    hello.name = from.text(kLongestText);
    hello.boot = from.text(kLongestText);
    hello.limits = read_limits(from);
    from.end();
    return hello;
  });
}

Message Welcome::encode() const {
  Writer to;
  to.u32(kMagic);
  write(to, limits);
  write(to, shared_address);
  to.u64(shared_bytes);
  return Message::of(to.take());
}

Welcome Welcome::decode(const Message& message) {
  return decoded(message, "a welcome", [](Reader& from) {
    Welcome welcome;
    welcome.limits = read_limits(from);
    welcome.shared_address = from.text(kLongestText);
    welcome.shared_bytes = from.u64();
    from.end();
    return welcome;
  });
}

std::string difference(const Identity& server, const Hello& client) {
  if (client.version != kProtocolVersion) {
    return "the server speaks version " + std::to_string(kProtocolVersion) +
           " of the protocol, this client version " + std::to_string(client.version);
  }
  if (client.identity.job != server.job) {
    return "the server serves job '" + server.job + "', this client is of job '" +
           client.identity.job + "'";
  }
  if (client.identity.fingerprint != server.fingerprint) {
    return "the server's model is '" + server.fingerprint + "', this client's is '" +
           client.identity.fingerprint + "'";
  }
  return "";
}

std::string boot_identity() {
  std::string identity;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> identity;
  return identity;
}

}  // namespace convoy::server::transport
