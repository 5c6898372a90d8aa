// Log lines for people, on standard error.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace convoy {

// Writes "[12:30:01 rank 2 host] warning: text" lines, one write per line so that the lines of
// several ranks don't mix. Safe from any thread. Copies share the sink.
class Log {
 public:
  enum class Level { debug, info, warning, error };

  // The prefix stands before each line ("rank 2 node7"); empty for none.
  explicit Log(std::string prefix = "", Level threshold = Level::info);
  ~Log();
  Log(const Log&);
  Log& operator=(const Log&);

  void debug(std::string_view text) const;
  void info(std::string_view text) const;
  void warning(std::string_view text) const;
  void error(std::string_view text) const;

 private:
  struct Sink;
  std::shared_ptr<Sink> sink_;
};

}  // namespace convoy
