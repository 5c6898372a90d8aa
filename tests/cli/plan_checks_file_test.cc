// checks.jsonl: the trainings of `convoy plan check` that are finished.
#include <fstream>

#include "cli/plan/checks_file.h"
#include "convoy/base/error.h"
#include "tests/cli/checked_training.h"
#include "tests/cli/plan_fixture.h"

namespace convoy::cli {
namespace {

class PlanChecksFile : public PlanFixture {
 protected:
  std::string refusal(const std::string& path, const ChecksHeader& header) const {
    return test::message_of<UsageError>([&] { ChecksFile(path, header, true); });
  }
};

const ChecksHeader kChecksHeader{"9f", "train_loss", 0.5, "a processor, 2 cores"};

TEST_F(PlanChecksFile, KeepsWhatIsFinished) {
  const std::string path = scratch_.path("checks.jsonl");
  const CheckedTraining reached = checked_training(true, 100, 50);
  CheckedTraining censored = checked_training(false, 400, 200);
  censored.seed = 1002;
  {
    ChecksFile file(path, kChecksHeader, false);
    EXPECT_TRUE(has(refusal(path, kChecksHeader), "is in use by another process"));
    file.add(reached);
    file.add(censored);
  }
  std::ofstream(path, std::ios::app) << R"({"kind": "training", "wor)";
  {
    ChecksFile file(path, kChecksHeader, true);
    ASSERT_NE(file.find(reached, 1000), nullptr);
    EXPECT_EQ(file.find(reached, 1000)->seconds, 50);
    EXPECT_NE(file.find(censored, 400), nullptr);
    EXPECT_EQ(file.find(censored, 401), nullptr);  // it would go on
    CheckedTraining other = reached;
    other.workers = 2;
    EXPECT_EQ(file.find(other, 1), nullptr);
    file.add(other);
  }
  EXPECT_NE(ChecksFile(path, kChecksHeader, true).find(reached, 1000), nullptr);
  EXPECT_TRUE(has(test::message_of<UsageError>([&] { ChecksFile(path, kChecksHeader, false); }),
                  "already: add --resume to go on with them"));
  const auto other = [](const auto& change) {
    ChecksHeader header = kChecksHeader;
    change(header);
    return header;
  };
  EXPECT_TRUE(has(refusal(path, other([](ChecksHeader& h) { h.fingerprint = "0"; })),
                  "has trainings of another recipe, or other data; move it away"));
  EXPECT_TRUE(has(refusal(path, other([](ChecksHeader& h) { h.target = 0.3; })),
                  "has trainings to train_loss 0.5, not to train_loss 0.3"));
  EXPECT_TRUE(has(refusal(path, other([](ChecksHeader& h) { h.machine = "h0:1"; })),
                  "has trainings on a processor, 2 cores, not on h0:1"));
  // Those of before are on the machine of the first line, and so it may have GPUs.
  EXPECT_NE(ChecksFile(path, other([](ChecksHeader& h) { h.machine += ", 1 GPU X"; }), true)
                .find(reached, 1000),
            nullptr);
  const std::string whole = read_text_file(path);
  std::ofstream(path, std::ios::app) << "{\"kind\": \"training\"}\n";
  EXPECT_TRUE(has(refusal(path, kChecksHeader), "checks.jsonl:5: no line of `convoy plan check`"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const std::size_t at = text.rfind(from);
    EXPECT_NE(at, std::string::npos) << from;
    test::spill(path, text.replace(at, from.size(), to));
    return refusal(path, kChecksHeader);
  };
  for (const char* updates : {"-5", "1e300", "1.5"}) {
    EXPECT_TRUE(has(changed("\"updates\":100", "\"updates\":" + std::string(updates)),
                    "checks.jsonl:4: no line of `convoy plan check`: updates has to be a whole "
                    "number from 0 on"))
        << updates;
  }
  EXPECT_TRUE(
      has(changed("\"batch\":16", "\"batch\":0"), "batch has to be a whole number from 1 on"));
  EXPECT_TRUE(has(changed("\"seconds\":50.0", "\"seconds\":-1"), "seconds has to be 0 or more"));
}

// First between two of them, then between four.
TEST_F(PlanChecksFile, GoesOnWithMoreHosts) {
  const std::string path = scratch_.path("checks.jsonl");
  const auto of = [](const std::string& machine) {
    return ChecksHeader{"9f", "train_loss", 0.5, machine};
  };
  CheckedTraining two = checked_training(true, 100, 50), four = two;
  two.workers = 2, two.machine = "hosts a:1,b:1";
  four.workers = 4, four.machine = "hosts a:1,b:1,c:1,d:1";
  ChecksFile(path, of(two.machine), true).add(two);
  {
    ChecksFile file(path, of(four.machine), true);
    EXPECT_NE(file.find(two, 1000), nullptr);
    file.add(four);
  }
  CheckedTraining others = four;
  others.machine = "hosts a:1,b:1,e:1,f:1";
  EXPECT_TRUE(has(refusal(path, of("hosts a:1,c:1")), "on hosts a:1,b:1, not on hosts a:1,c:1"));
  const ChecksFile file(path, of(others.machine), true);
  EXPECT_NE(file.find(two, 1000), nullptr);
  EXPECT_NE(file.find(four, 1000), nullptr);
  EXPECT_EQ(file.find(others, 1000), nullptr);
}

}  // namespace
}  // namespace convoy::cli
