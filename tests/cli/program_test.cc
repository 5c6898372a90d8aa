// The program as a whole: help, version, mistyped names, convoy doctor.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/cli/job.h"

namespace convoy::cli {
namespace {

TEST(Program, ShowsHelpAndVersion) {
  const JobResult help = Job({"--help"}).finish();
  EXPECT_EQ(help.exit_status, 0);
  for (const char* command : {"run", "bench", "doctor"})
    EXPECT_NE(help.out.find(command), std::string::npos);
  EXPECT_EQ(help.out.find("agent"), std::string::npos);
  const JobResult version = Job({"--version"}).finish();
  EXPECT_EQ(version.exit_status, 0);
  EXPECT_EQ(version.out.rfind("convoy ", 0), 0u);
  EXPECT_NE(version.out.find("LibTorch 2."), std::string::npos);
}

TEST(Program, NamesTheNearestKnown) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"rnu"}, "did you mean run?"},
      {{"docter"}, "did you mean doctor?"},
      {{"xyzzy"}, "there are: "},
      {{}, "a command is missing"},
      {{"doctor", "--jsn", "-"}, "did you mean --json?"},
      {{"doctor", "--json", "/nowhere/x"}, "--json: can't write '/nowhere/x'"},
      {{"--versoin"}, "did you mean --version?"}};
  for (const auto& [arguments, part] : cases) {
    const JobResult result = Job(arguments).finish();
    EXPECT_EQ(result.exit_status, 2);
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(count(result.err, "\n"), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST(Program, ComplainsInTheNameOfTheWholeCommand) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"doctor", "--json", "/nowhere/x"}, "convoy doctor: --json: can't write"},
      {{"bench", "allreduce", "--sizes", "much"}, "convoy bench allreduce: "},
      {{"bench", "allreduce", "--size", "1"}, "convoy bench allreduce: there is no option --size"},
      {{"plan", "machine", "/nowhere.toml", "--batch", "1"}, "convoy plan machine: "}};
  for (const auto& [arguments, start] : cases) {
    const JobResult result = Job(arguments).finish();
    EXPECT_EQ(result.exit_status, 2);
    EXPECT_EQ(result.err.substr(0, start.size()), start) << result.err;
  }
}

TEST(Program, SaysWhichNumbersItTakes) {
  const std::string ranks = " is not a whole number from 1 to 65536\n";
  std::vector<std::pair<std::vector<std::string>, std::string>> cases;
  for (const char* bad : {"0", "two", "1.5", "65537", ""}) {
    cases.push_back(
        {{"train", "recipe.toml", "-n", bad}, "--ranks: '" + std::string(bad) + "'" + ranks});
  }
  cases.push_back({{"eval", "run", "-n", "0"}, "--ranks: '0'" + ranks});
  for (const char* bench : {"allreduce", "step", "shuffle"}) {
    cases.push_back({{"bench", bench, "-n", "-1"}, "--ranks: '-1'" + ranks});
  }
  for (const char* bad : {"0", "nan"}) {
    cases.push_back({{"train", "recipe.toml", "--grace", bad},
                     "--grace: '" + std::string(bad) + "' is not a number above 0\n"});
  }
  for (const auto& [arguments, end] : cases) {
    const JobResult result = Job(arguments).finish();
    EXPECT_EQ(result.exit_status, 2);
    EXPECT_TRUE(result.err.ends_with(end)) << result.err << end;
    EXPECT_EQ(count(result.err, "\n"), 1) << result.err;
  }
  // The largest number is taken; what stands in the way then is the recipe.
  EXPECT_NE(Job({"train", "none.toml", "-n", "65536"}).finish().err.find("none.toml"),
            std::string::npos);
}

TEST(Doctor, ReportsEveryCheckAsOneObject) {
  const JobResult result = Job({"doctor", "--json", "-"}).finish();
  EXPECT_EQ(result.exit_status, 0) << result.out << result.err;
  std::set<std::string> checks;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row.size(), 4u);
    const std::string status = row.at("status");
    EXPECT_TRUE(status == "ok" || status == "note" || status == "missing") << line;
    EXPECT_TRUE(status != "missing" || row.at("hint") != "") << line;
    EXPECT_NE(row.at("detail"), "") << line;
    checks.insert(row.at("check"));
  }
  for (const char* check : {"cores", "memory", "MPI library", "MPI threads", "mpirun", "LibTorch",
                            "convoy run", "libvips"}) {
    EXPECT_EQ(checks.count(check), 1u) << check;
  }
}

}  // namespace
}  // namespace convoy::cli
