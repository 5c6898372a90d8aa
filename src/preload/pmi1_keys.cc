#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "preload/job_keys.h"

namespace convoy::preload::pmi1 {
namespace {

[[noreturn]] void fail(const std::string& question, const std::string& why) {
  throw Failure("Hydra gives no answer to '" + question + "': " + why);
}

// One line, without its end.
std::string read_line(int descriptor, const std::string& question) {
  constexpr std::size_t kLongest = 4096;
  std::string line;
  for (char c = 0; line.size() < kLongest;) {
    const ssize_t got = read(descriptor, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(question, got == 0 ? "it has closed the connection" : std::strerror(errno));
    if (c == '\n') return line;
    line += c;
  }
  fail(question, "a line without an end");
}

// The answer to a question, which has to be of this kind.
std::string ask(const std::string& question, const std::string& kind) {
  const int descriptor = std::atoi(environment("PMI_FD").c_str());
  const std::string line = question + '\n';
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t got = write(descriptor, line.data() + sent, line.size() - sent);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(question, std::strerror(errno));
    sent += static_cast<std::size_t>(got);
  }
  const std::string answer = read_line(descriptor, question);
  if (answer.rfind("cmd=" + kind + ' ', 0) != 0) fail(question, "'" + answer + "'");
  return answer + ' ';
}

// The value of a word such as rc=0.
std::string word(const std::string& answer, const std::string& name) {
  const std::size_t at = answer.find(' ' + name + '=');
  if (at == answer.npos) fail(name, "'" + answer + "'");
  const std::size_t begin = at + name.size() + 2;
  return answer.substr(begin, answer.find(' ', begin) - begin);
}

const std::string& store() {
  static const std::string name = word(ask("cmd=get_my_kvsname", "my_kvsname"), "kvsname");
  return name;
}

}  // namespace

// HYDI_CONTROL_FD: other launchers that speak PMI-1 may not bear that a client begins twice.
bool available() {
  return !environment("PMI_FD").empty() && !environment("HYDI_CONTROL_FD").empty();
}

void put(const std::string& key) {
  ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  const std::string question = "cmd=put kvsname=" + store() + " key=" + key + " value=1";
  if (word(ask(question, "put_result"), "rc") != "0") fail(question, "it refuses");
}

bool has(const std::string& key) {
  return word(ask("cmd=get kvsname=" + store() + " key=" + key, "get_result"), "rc") == "0";
}

}  // namespace convoy::preload::pmi1
