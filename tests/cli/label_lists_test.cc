// Images with any number of labels as users have them: a folder with a table, packed, trained on,
// evaluated and asked about.
#include <csignal>
#include <map>
#include <sstream>

#include "convoy/base/files.h"
#include "tests/cli/exported.h"
#include "tests/cli/sample_log.h"
#include "tests/cli/train_fixture.h"

namespace convoy::cli {
namespace {

constexpr int kCopies = 4;

class LabelLists : public Train {
 protected:
  // Pictures of several kinds, some of which have no label, in folders that say nothing.
  void SetUp() override {
    const std::map<std::string, std::string> labels = {{"color16.png", "color"},
                                                       {"color420.jpg", "jpeg,color"},
                                                       {"color422.jpg", "color, jpeg"},
                                                       {"color444.jpg", "jpeg,color"},
                                                       {"gray.jpg", "jpeg"},
                                                       {"gray.png", ""},
                                                       {"interlaced.png", "color"},
                                                       {"large420.jpg", "jpeg,large,color"},
                                                       {"palette.png", "color"},
                                                       {"pattern.png", ""},
                                                       {"progressive.jpg", "color,jpeg"},
                                                       {"restarts.jpg", "jpeg,color"}};
    std::ofstream table(folder_ + "/labels.tsv");
    for (int copy = 0; copy < kCopies; ++copy) {
      const std::string below = "set " + std::to_string(copy) + "/";
      fs::create_directories(folder_ + "/pictures/" + below);
      for (const auto& [name, classes] : labels) {
        fs::copy_file(fixture(name), folder_ + "/pictures/" + below + name);
        table << below << name << (classes.empty() ? "" : "\t" + classes) << "\n";
        ++images_;
      }
    }
    std::ofstream(folder_ + "/classes.txt") << "large\njpeg\nunused\ncolor\n";
    const std::string tables = R"(path = "pictures"
labels = "labels.tsv"
class_names = "classes.txt"
)";
    write_recipe("folder", "image_folder", tables);
    write_recipe("packed", "packed", "files = [\"pictures.tar\"]\n");
  }
  std::string fixture(const std::string& name) const {
    return source_ + "/tests/data/fixtures/" + name;
  }
  void write_recipe(const std::string& name, const std::string& reader,
                    const std::string& where) const {
    std::ofstream(folder_ + "/" + name + ".toml") << "[task]\nname = \"one_vs_all\"\n"
                                                  << "[model]\nname = \"lenet\"\n"
                                                  << "[data]\nreader = \"" << reader << "\"\n"
                                                  << R"(size = 28
channels = 1
mean = [0.5]
deviation = [0.25]
[data.augment]
crop = "random_resized"
flip = true
[optimizer]
name = "sgd"
lr = 0.01
momentum = 0.9
[training]
batch = 8
epochs = 0
[checkpoint]
every_steps = 5
[output]
tensorboard = false
log_samples = true
)"
                                                  << "[data.train]\n"
                                                  << where << "[data.validation]\n"
                                                  << where;
  }
  JobResult pack() const {
    return Job({"pack", folder_ + "/pictures", folder_ + "/pictures.tar", "--keep", "--label-table",
                folder_ + "/labels.tsv", "--classes", folder_ + "/classes.txt"})
        .finish();
  }
  std::vector<std::string> train(const std::string& recipe, int ranks, const std::string& run,
                                 int steps, const std::vector<std::string>& settings = {}) const {
    std::vector<std::string> words{"train", folder_ + "/" + recipe + ".toml", "-n",
                                   std::to_string(ranks)};
    const auto set = [&words](const std::string& value) {
      words.insert(words.end(), {"--set", value});
    };
    set("output.folder=" + folder_ + "/" + run);
    set("training.steps=" + std::to_string(steps));
    for (const std::string& setting : settings) set(setting);
    return words;
  }
  std::vector<std::byte> model(const std::string& run) const {
    return exported_model(folder_ + "/" + run);
  }
  std::vector<double> losses(const std::string& run) const {
    std::istringstream lines(read_text_file(folder_ + "/" + run + "/metrics.jsonl"));
    std::vector<double> losses;
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line);
      if (row["kind"] == "step") losses.push_back(row["loss"]);
    }
    return losses;
  }
  nlohmann::json evaluated(const std::string& run, const std::string& ranks) const {
    const JobResult result =
        Job({"eval", folder_ + "/" + run, "-n", ranks, "--json", "-"}).finish();
    EXPECT_EQ(result.exit_status, 0) << result.err;
    return nlohmann::json::parse(result.out);
  }

  int images_ = 0;
};

TEST_F(LabelLists, APackedFolderTrainsAsTheFolderDoes) {
  const JobResult packed = pack();
  ASSERT_EQ(packed.exit_status, 0) << packed.err;
  EXPECT_NE(packed.out.find("labels   68, any number for each image"), std::string::npos)
      << packed.out;
  const JobResult inspected = Job({"inspect", folder_ + "/pictures.tar", "--records"}).finish();
  EXPECT_NE(inspected.out.find("labels   68 labels, any number for each image, 3 at most; 8"),
            std::string::npos)
      << inspected.out;
  EXPECT_EQ(count(inspected.out, "  0,1,3  "), kCopies) << inspected.out;
  EXPECT_EQ(Job({"verify", folder_ + "/pictures.tar", "--decode"}).finish().exit_status, 0);
  const auto index = read_file(folder_ + "/pictures.tar.index");
  const JobResult indexed = Job({"index", folder_ + "/pictures.tar", "--json", "-"}).finish();
  EXPECT_EQ(nlohmann::json::parse(indexed.out)["labels"], 68) << indexed.out << indexed.err;
  EXPECT_EQ(read_file(folder_ + "/pictures.tar.index"), index);

  constexpr int kSteps = 10;
  for (const std::string recipe : {"folder", "packed"}) {
    const JobResult result = Job(train(recipe, 2, recipe, kSteps)).finish();
    ASSERT_EQ(result.exit_status, 0) << result.err;
  }
  // To the last bit.
  const std::vector<double> expected = losses("folder");
  EXPECT_EQ(expected.size(), std::size_t{kSteps});
  EXPECT_EQ(losses("packed"), expected);
  EXPECT_TRUE(model("packed") == model("folder"));
  // Ranks share a batch in another way.
  const JobResult memory =
      Job(train("packed", 2, "memory", kSteps, {"data.store=memory"})).finish();
  ASSERT_EQ(memory.exit_status, 0) << memory.err;
  EXPECT_EQ(read_sample_log(folder_ + "/memory").batches,
            read_sample_log(folder_ + "/folder").batches);
  const std::vector<double> got = losses("memory");
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << i;

  const auto folder = evaluated("folder", "2"), tar = evaluated("packed", "2");
  EXPECT_EQ(folder["samples"], images_);
  for (const char* figure : {"map", "f1", "top1"}) EXPECT_EQ(tar[figure], folder[figure]) << figure;
  EXPECT_GT(tar["map"], 0.3);
}

TEST_F(LabelLists, KilledResumedEvaluatedAndAsked) {
  ASSERT_EQ(pack().exit_status, 0);
  const std::vector<std::string> settings{"data.store=memory"};
  {
    Job job(train("packed", 2, "run", kEndless, settings));
    ASSERT_TRUE(wait_for_step("run", 13));
    ASSERT_TRUE(wait_for_a_checkpoint("run"));
    const pid_t victim = rank_process(job, 1);
    ASSERT_GT(victim, 0);
    kill(victim, SIGKILL);
    EXPECT_EQ(job.finish().exit_status, 1);
  }
  const int enough = steps("run") + 7;
  auto words = train("packed", 2, "run", enough, settings);
  words.push_back("--resume");
  const JobResult resumed = Job(words).finish();
  ASSERT_EQ(resumed.exit_status, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("resumed after step"), std::string::npos) << resumed.out;
  const JobResult whole = Job(train("packed", 2, "whole", enough, settings)).finish();
  ASSERT_EQ(whole.exit_status, 0) << whole.err;
  EXPECT_TRUE(model("run") == model("whole"));
  EXPECT_EQ(evaluated("run", "2")["map"], evaluated("whole", "2")["map"]);

  const JobResult asked =
      Job({"predict", folder_ + "/run", fixture("large420.jpg"), fixture("gray.png"), "--json", "-",
           "--set", "task.options.threshold=0.3"})
          .finish();
  ASSERT_EQ(asked.exit_status, 0) << asked.err;
  std::istringstream lines(asked.out);
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    ASSERT_GE(row["classes"].size(), 1u) << line;
    const std::string name = row["classes"][0]["name"];
    EXPECT_TRUE(name == "large" || name == "jpeg" || name == "color" || name == "unused") << line;
  }
  EXPECT_EQ(count(asked.out, "\n"), 2) << asked.out;
}

TEST_F(LabelLists, MistakesAreSaid) {
  ASSERT_EQ(pack().exit_status, 0);
  // Labels that have changed since are other data.
  ASSERT_EQ(Job(train("packed", 1, "run", 3)).finish().exit_status, 0);
  std::string table = read_text_file(folder_ + "/labels.tsv");
  table.replace(table.find("\tjpeg\n"), 6, "\tlarge\n");
  std::ofstream(folder_ + "/labels.tsv") << table;
  ASSERT_EQ(Job({"pack", folder_ + "/pictures", folder_ + "/pictures.tar", "--keep", "--overwrite",
                 "--label-table", folder_ + "/labels.tsv", "--classes", folder_ + "/classes.txt"})
                .finish()
                .exit_status,
            0);
  auto words = train("packed", 1, "run", 6);
  words.push_back("--resume");
  const JobResult other = Job(words).finish();
  EXPECT_EQ(other.exit_status, 2) << other.out;
  EXPECT_NE(other.err.find("data.train is another data set"), std::string::npos) << other.err;

  const JobResult softmax =
      Job(train("packed", 1, "softmax", 3, {"task.name=classification"})).finish();
  EXPECT_EQ(softmax.exit_status, 2);
  EXPECT_NE(softmax.err.find("set task.name = \"one_vs_all\""), std::string::npos) << softmax.err;

  const JobResult memory = Job(train("folder", 1, "memory", 3, {"data.store=memory"})).finish();
  EXPECT_EQ(memory.exit_status, 2);
  EXPECT_NE(memory.err.find("is for packed data (convoy pack makes it), not for image_folder"),
            std::string::npos)
      << memory.err;

  std::ofstream(folder_ + "/labels.tsv", std::ios::app) << "set 9/no.jpg\tjpeg\n";
  const JobResult missing = Job({"pack", folder_ + "/pictures", folder_ + "/other.tar", "--keep",
                                 "--label-table", folder_ + "/labels.tsv"})
                                .finish();
  EXPECT_EQ(missing.exit_status, 2);
  EXPECT_NE(missing.err.find("labels.tsv: line 49: 'set 9/no.jpg' is no picture in"),
            std::string::npos)
      << missing.err;
}

}  // namespace
}  // namespace convoy::cli
