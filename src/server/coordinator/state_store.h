// Where a coordinator keeps what must survive it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/wire/writer.h"

namespace convoy::server::coordinator {

// What a change has to survive once it is reported as done.
enum class Survives : std::uint8_t {
  process = 0,  // the end of this process; a power cut may take the changes of the last moments
  power = 1,    // a power cut, too
};

struct Value {
  std::uint64_t revision = 0;  // of the change that set it: 1 or more, later ones are larger
  Bytes bytes;
};

struct Write {
  std::string key;
  // The revision that the key has to have: 0 when it must not be there. Nothing: whatever it has.
  std::optional<std::uint64_t> expected;
  std::optional<Bytes> value;  // nothing: the key goes
};

struct Changed {
  enum class Kind : std::uint8_t {
    done = 0,
    conflict = 1,   // a key has another revision; nothing was changed
    fenced = 2,     // a later term has begun; nothing was changed, and never will be
    unreached = 3,  // nothing was changed, or nobody knows: the same change may be made again
    broken = 4,     // the store can't go on in this process
  };
  Kind kind = Kind::done;
  std::uint64_t revision = 0;  // if done
  std::string problem;         // one line; empty if done
};

// Bytes under keys, for one writer at a time: each begins a term, and the writes of those before
// fail from then on. Thread-safe; calls may wait for a disk or a network.
class StateStore {
 public:
  virtual ~StateStore() = default;
  virtual std::string where() const = 0;  // for people

  // Begins the next term and returns its number. Throws Failure when the store can't be reached.
  virtual std::uint64_t begin() = 0;

  // As of some moment between call and return. Throw Failure when the store can't be reached.
  virtual std::optional<Value> read(const std::string& key) = 0;
  virtual std::map<std::string, Value> list(const std::string& prefix) = 0;

  // All of these writes in one step, or none. At most kMaxWrites, each key once.
  virtual Changed change(std::uint64_t term, std::span<const Write> writes, Survives survives) = 0;
  Changed compare_and_set(std::uint64_t term, const std::string& key, std::uint64_t expected,
                          Bytes value, Survives survives);

  // Makes what was changed survive a power cut; fenced, if that is seen, when a later term than the
  // one that this object began has begun. To be called every 100 ms or so.
  virtual Changed settle() { return {}; }

  // The most bytes that a value can have.
  virtual std::size_t largest_value() const { return std::size_t{256} << 20; }

  static constexpr std::size_t kMaxWrites = 100;
  static constexpr std::size_t kMaxKey = 1024;  // bytes
};

}  // namespace convoy::server::coordinator
