// Job files of shell scripts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {

// A role that runs a script of sh; `more`: further lines of its table.
inline std::string role(const std::string& name, const std::string& script,
                        const std::string& more = "") {
  return "[[role]]\nname = \"" + name + "\"\ncommand = [\"sh\", \"-c\", '''" + script + "''']\n" +
         more + "\n";
}

// A service that says "ready", and until it is stopped does nothing else.
inline std::string service(const std::string& name, const std::string& more = "") {
  return role(name, "trap 'echo stopped; exit 0' TERM; echo ready; while :; do sleep 0.02; done",
              "until_done = false\n" + more);
}

// `convoy job` on a file of this text, in a folder for temporary files of its own.
class JobOfRoles {
 public:
  explicit JobOfRoles(const std::string& text, std::vector<std::string> variables = {}) {
    std::filesystem::create_directory(temporary());
    test::spill(scratch_.path("mine.toml"), text);
    variables.push_back("TMPDIR=" + temporary());
    variables.push_back("HERE=" + scratch_.path());
    job_.emplace(std::vector<std::string>{scratch_.path("mine.toml")}, variables, job_program());
  }

  Job* operator->() { return &*job_; }
  Job& operator*() { return *job_; }
  // $HERE of the scripts.
  std::string path(const std::string& name) const { return scratch_.path(name); }
  // Where the job's folder is.
  std::string temporary() const { return scratch_.path("tmp"); }

 private:
  test::Scratch scratch_;
  std::optional<Job> job_;
};

}  // namespace convoy::cli
