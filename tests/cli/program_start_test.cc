// What the program loads: LibTorch only for the commands that need it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/base/scratch.h"
#include "tests/cli/job.h"

namespace convoy::cli {
namespace {

// What the loader of programs says of the files that this command and all that it starts load.
std::string loaded_by(const std::vector<std::string>& arguments) {
  return Job(arguments, {"LD_DEBUG=files"}).finish().err;
}

TEST(ProgramStart, LoadsLibTorchForTrainingAlone) {
  const std::vector<std::vector<std::string>> without = {{"--help"},
                                                         {"--version"},
                                                         {"run", "--help"},
                                                         {"job", "--help"},
                                                         {"report", "--help"},
                                                         {"status", "--help"},
                                                         {"serve", "--help"},
                                                         {"certs", "--help"},
                                                         {"pack", "--help"},
                                                         {"index", "--help"},
                                                         {"inspect", "--help"},
                                                         {"verify", "--help"},
                                                         {"doctor", "--help"},
                                                         {"trian"},
                                                         {"run", "-n", "1", "true"}};
  for (const auto& arguments : without) {
    const std::string loaded = loaded_by(arguments);
    EXPECT_NE(loaded.find("libconvoy_base.so"), std::string::npos) << arguments.front();
    EXPECT_EQ(loaded.find("libtorch"), std::string::npos) << arguments.front();
  }
  const std::string loaded = loaded_by({"train", "--help"});
  EXPECT_NE(loaded.find("libconvoy_commands.so"), std::string::npos);
  EXPECT_NE(loaded.find("libtorch"), std::string::npos);
}

// A library that can't be opened lies before the right one.
class WithoutLibrary : public ::testing::Test {
 protected:
  WithoutLibrary() {
    const std::string right = std::filesystem::path(convoy_program())
                                  .parent_path()
                                  .append("../lib/libconvoy_commands.so")
                                  .string();
    name_ = std::filesystem::read_symlink(right).string();
    std::ofstream(scratch_.path(name_)) << "no library";
  }
  JobResult run(const std::vector<std::string>& arguments) const {
    return Job(arguments, {"LD_LIBRARY_PATH=" + scratch_.path("")}).finish();
  }

  const test::Scratch scratch_;
  std::string name_;
};

TEST_F(WithoutLibrary, SaysSoInOneLine) {
  for (const char* command : {"train", "models", "bench"}) {
    const JobResult result = run({command, "--help"});
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_EQ(result.out, "");
    const std::string start = "convoy " + std::string(command) +
                              ": the part of convoy that needs LibTorch can't be opened: ";
    EXPECT_EQ(result.err.substr(0, start.size()), start);
    EXPECT_NE(result.err.find(name_), std::string::npos) << result.err;
    EXPECT_EQ(count(result.err, "\n"), 1) << result.err;
  }
  EXPECT_EQ(run({"--help"}).exit_status, 0);
  EXPECT_EQ(run({"run", "-n", "1", "true"}).exit_status, 0);
}

TEST_F(WithoutLibrary, TheDoctorMissesIt) {
  const JobResult result = run({"doctor", "--json", "-"});
  EXPECT_EQ(result.exit_status, 1) << result.out << result.err;
  EXPECT_NE(result.out.find(R"({"check":"LibTorch","status":"missing","detail":"the part of)"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find(R"("check":"convoy run","status":"ok")"), std::string::npos)
      << result.out;
}

}  // namespace
}  // namespace convoy::cli
