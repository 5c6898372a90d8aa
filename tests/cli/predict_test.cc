// convoy predict --data: what a trained network makes of each sample of a data set; and what it
// takes to load a network.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <set>
#include <sstream>

#include "convoy/base/files.h"
#include "tests/cli/train_fixture.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::json;

// Of probabilities that were computed by other ranks, in other batches.
constexpr double kTolerance = 1e-5;

std::vector<Json> parse_rows(const std::string& text) {
  std::vector<Json> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  return rows;
}

class Predict : public Train {
 protected:
  void train(const std::vector<std::string>& words) const {
    const JobResult result = Job(words).finish();
    ASSERT_EQ(result.exit_status, 0) << result.err;
  }
  JobResult predict(const std::vector<std::string>& more, const std::string& run = "run") const {
    std::vector<std::string> words{"predict", folder_ + "/" + run};
    words.insert(words.end(), more.begin(), more.end());
    return Job(words).finish();
  }
  std::vector<Json> rows_of(std::vector<std::string> more, const std::string& run = "run") const {
    more.insert(more.end(), {"--json", "-"});
    const JobResult result = predict(more, run);
    EXPECT_EQ(result.exit_status, 0) << result.err;
    return parse_rows(result.out);
  }
  Json evaluated(std::vector<std::string> more, const std::string& run = "run") const {
    more.insert(more.begin(), {"eval", folder_ + "/" + run, "--json", "-"});
    const JobResult result = Job(more).finish();
    EXPECT_EQ(result.exit_status, 0) << result.err;
    return Json::parse(result.out);
  }
  void expect_refused(const std::vector<std::string>& more, const std::string& why) const {
    const JobResult result = predict(more);
    EXPECT_EQ(result.exit_status, 2) << result.out;
    EXPECT_NE(result.err.find(why), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }

  static double accuracy(const std::vector<Json>& rows) {
    double hits = 0;
    for (const Json& row : rows) hits += row["classes"][0]["index"] == row["label"]["index"];
    return hits / static_cast<double>(rows.size());
  }
  // The same but for the last digits of probabilities, and but for `apart` of each row.
  static void expect_same_answers(std::vector<Json> rows, std::vector<Json> expected,
                                  const std::set<std::string>& apart = {}) {
    ASSERT_EQ(rows.size(), expected.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(rows[i]["classes"].size(), expected[i]["classes"].size()) << i;
      for (std::size_t c = 0; c < rows[i]["classes"].size(); ++c) {
        Json &one = rows[i]["classes"][c], &other = expected[i]["classes"][c];
        ASSERT_NEAR(one["probability"].get<double>(), other["probability"].get<double>(),
                    kTolerance)
            << i;
        one.erase("probability");
        other.erase("probability");
      }
      for (const std::string& key : apart) {
        rows[i].erase(key);
        expected[i].erase(key);
      }
      ASSERT_EQ(rows[i], expected[i]);
    }
  }

  // Pictures of two classes below `name`, some of other sizes and colors than others, and what a
  // small network needs to be trained on them.
  void make_pictures(const std::string& name) const {
    const std::vector<std::string> files{"color420.jpg", "color16.png", "gray.png", "palette.png",
                                         "progressive.jpg"};
    for (const std::string label : {"cat", "dog"}) {
      fs::create_directories(folder_ + "/" + name + "/" + label);
      for (const std::string& file : files) {
        fs::copy_file(source_ + "/tests/data/fixtures/" + file,
                      folder_ + "/" + name + "/" + label + "/" + file);
      }
    }
  }
  std::vector<std::string> on_pictures(const std::string& run) const {
    write_text(folder_ + "/pictures.toml", R"(
[model]
name = "lenet"
[data]
reader = "image_folder"
size = 28
channels = 1
mean = [0.5]
deviation = [0.25]
[data.train]
path = "pictures"
[data.validation]
path = "pictures"
[data.augment]
crop = "center"
[optimizer]
name = "sgd"
lr = 0.01
[training]
batch = 4
steps = 4
epochs = 0
[evaluation]
every_epochs = 0
[output]
tensorboard = false
)");
    return {"train", folder_ + "/pictures.toml", "--set", "output.folder=" + folder_ + "/" + run};
  }
  static void write_text(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
};

std::vector<std::string> together(std::vector<std::string> words,
                                  const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// 1001 samples in batches of 37, the last of which has two: none for the third of three ranks.
TEST_F(Predict, TheSameRowsOnEveryGridAndWhatEvalCounts) {
  take_trained_run("run");
  const std::string tar = folder_ + "/some.tar", mnist = source_ + "/data/mnist/t10k-";
  ASSERT_EQ(Job({"pack", mnist + "images-idx3-ubyte.gz", tar, "--labels",
                 mnist + "labels-idx1-ubyte.gz", "--limit", "1001"})
                .finish()
                .exit_status,
            0);
  // Of another reader than that which the checkpoint names.
  const std::vector<std::string> data{"--set", "data.reader=packed",
                                      "--set", "data.train.files=[\"" + tar + "\"]",
                                      "--set", "data.validation.files=[\"" + tar + "\"]",
                                      "--set", "evaluation.batch=37"};
  const auto of = [&](const std::string& split, const std::vector<std::string>& more) {
    return rows_of(together(together({"--data", split}, data), more));
  };
  const std::vector<Json> rows = of("validation", {});
  ASSERT_EQ(rows.size(), 1001u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i]["sample"], i);
    ASSERT_EQ(rows[i]["classes"].size(), 5u);
  }
  EXPECT_NE(rows[0]["key"], rows[1]["key"]);
  EXPECT_EQ(rows[0]["label"], Json::parse(R"({"index": 7, "name": "7"})"));
  EXPECT_GT(accuracy(rows), 0.5);
  EXPECT_EQ(accuracy(rows), evaluated(data)["top1"].get<double>());

  expect_same_answers(of("training", {"-n", "3"}), rows);
  const JobResult parts = predict(together({"--data", "--json", "-", "-n", "2", "--set",
                                            "strategy=partitioned", "--set", "grid.partitions=2"},
                                           data));
  expect_same_answers(parse_rows(parts.out), rows);
  EXPECT_EQ(parts.err.find("training takes"), std::string::npos) << parts.err;
  expect_same_answers(
      of("validation", {"-n", "2", "--set", "strategy=hybrid", "--set", "grid.partitions=2"}),
      rows);
  const std::vector<Json> top = of("validation", {"--top", "2"});
  EXPECT_EQ(top[0]["classes"].size(), 2u);

  // A file gets the rows, and people get lines.
  const JobResult people =
      predict(together({"--top", "1", "--json", folder_ + "/rows"}, together(data, {"--data"})));
  ASSERT_EQ(people.exit_status, 0) << people.err;
  EXPECT_EQ(parse_rows(read_text_file(folder_ + "/rows")).size(), 1001u);
  EXPECT_EQ(count(people.out, "%  "), 1001);
  EXPECT_EQ(people.out.find(rows[0]["key"].get<std::string>() + " (7)\n"), 0u) << people.out;
}

TEST_F(Predict, AFolderAndAPackOfItAreAnsweredAlike) {
  make_pictures("pictures");
  train(on_pictures("run"));
  ASSERT_EQ(Job({"pack", folder_ + "/pictures", folder_ + "/pictures.tar", "--keep"})
                .finish()
                .exit_status,
            0);
  for (const std::string crop : {"center", "ten"}) {
    const std::vector<std::string> evaluate{
        "--set", "data.evaluate.crop=" + crop, "--set",
        "data.evaluate.resize=" + std::string(crop == "ten" ? "36" : "28")};
    const std::vector<std::string> packed{
        "--set", "data.reader=packed", "--set",
        "data.validation.files=[\"" + folder_ + "/pictures.tar\"]"};
    const std::vector<Json> rows = rows_of(together({"--data"}, evaluate));
    ASSERT_EQ(rows.size(), 10u);
    EXPECT_EQ(rows[9]["label"]["name"], "dog");
    EXPECT_NE(rows[9]["key"].get<std::string>().find("dog/progressive.jpg"), std::string::npos);
    EXPECT_EQ(accuracy(rows), evaluated(evaluate)["top1"].get<double>());
    expect_same_answers(rows_of(together(together({"--data"}, evaluate), packed)), rows, {"key"});
    // A file that is asked about by its name is answered as the sample that it is.
    const auto file = rows_of(together({rows[1]["key"].get<std::string>()}, evaluate));
    expect_same_answers(file, {rows[1]}, {"file", "sample", "key", "label"});
  }
}

TEST_F(Predict, BadRecordsAndDataWithoutLabels) {
  make_pictures("pictures");
  train(on_pictures("run"));
  // In another order, with other classes, and one that is no picture; the first record says shapes.
  make_pictures("other");
  fs::rename(folder_ + "/other/cat", folder_ + "/other/unknown");
  fs::remove_all(folder_ + "/other/dog");
  const std::string bad = folder_ + "/other/unknown/gray.png";
  fs::resize_file(bad, fs::file_size(bad) / 2);
  const std::vector<std::string> other{"--data", "--set", "data.reader=image_folder", "--set",
                                       "data.validation.path=" + folder_ + "/other"};
  const JobResult failed = predict(other);
  EXPECT_EQ(failed.exit_status, 2);
  EXPECT_NE(failed.err.find(bad), std::string::npos) << failed.err;

  const auto skipping = together(other, {"--set", "data.on_bad=skip", "--json", "-", "-n", "2"});
  const JobResult skipped = predict(skipping);
  ASSERT_EQ(skipped.exit_status, 0) << skipped.err;
  EXPECT_NE(skipped.err.find(bad), std::string::npos) << skipped.err;
  EXPECT_NE(skipped.err.find("labels are those of the data, not the network's"), std::string::npos)
      << skipped.err;
  const std::vector<Json> rows = parse_rows(skipped.out);
  ASSERT_EQ(rows.size(), 5u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i]["sample"], i);
    EXPECT_EQ(rows[i]["label"]["name"], "unknown");
    EXPECT_EQ(rows[i].contains("error"), rows[i]["key"] == bad) << rows[i];
    EXPECT_EQ(rows[i].contains("classes"), rows[i]["key"] != bad) << rows[i];
  }
  // What is answered doesn't depend on labels.
  const std::vector<Json> known = rows_of({"--data"});
  EXPECT_EQ(rows[0]["classes"].size(), 2u);
  expect_same_answers({rows[0]}, {known[0]}, {"key", "label"});
}

TEST_F(Predict, MistakesAreSaid) {
  take_trained_run("run");
  const std::string picture = source_ + "/tests/data/fixtures/gray.png";
  expect_refused({picture, "--data", "validation"}, "name one or the other");
  expect_refused({}, "name inputs behind RUN, or a data set with --data");
  expect_refused({"--data", "validaton"},
                 "there is no 'validaton'; there are training and validation (did you mean "
                 "validation?)");
  expect_refused({"--data", "test"}, "there is no 'test'; there are training and validation");
  // Of a reader that is replaced, only what is used has to be named.
  const std::vector<std::string> replaced{"--set", "data.reader=packed", "--set",
                                          "data.train.files=[\"" + picture + "\"]"};
  expect_refused(together({"--data"}, replaced),
                 "data.validation.files is missing: tars with their indexes, or folders of them; "
                 "the reader packed needs it, for example with --set data.validation.files=...");
  // A reader that goes away ends it, however much there would be to say.
  for (const std::string ranks : {"1", "2"}) {
    const std::string line = convoy_program() + " predict " + folder_ + "/run --data training -n " +
                             ranks + " --json - | head -n 1 > " + folder_ +
                             "/first; echo ${PIPESTATUS[0]}";
    const JobResult broken = Job({"-c", line}, {}, "/bin/bash").finish();
    EXPECT_EQ(parse_rows(read_text_file(folder_ + "/first")).size(), 1u) << broken.err;
    EXPECT_NE(broken.out, "0\n") << broken.err;
  }
}

// Of a mini-batch that no memory holds; a data set is answered by as many samples at once.
TEST_F(Predict, AFewInputsNeedNoMemoryOfAMiniBatch) {
  take_trained_run("run");
  const std::vector<std::string> huge{"--set", "training.batch=1000000000"};
  expect_refused(together({"--data"}, huge), "values of 1000000000 samples");
  const auto picture = source_ + "/tests/data/fixtures/gray.png";
  const std::vector<Json> rows = rows_of(together({picture}, huge));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["classes"].size(), 5u);
}

// Without Task::answers: there is `convoy eval`, and that is said.
TEST_F(Predict, ATaskThatAnswersNoSamples) {
  const char* binary = std::getenv("CONVOY_BINARY_DIR");
  ASSERT_NE(binary, nullptr);
  write_text(folder_ + "/words.toml",
             "plugins = [\"" + std::string(binary) + "/tests/libcli_arranged_plugin.so\"]" + R"(
[task]
name = "next_letter"
[model]
name = "reader"
[data]
reader = "words"
[data.train]
size = 40
[data.validation]
size = 31
[training]
batch = 64
steps = 1
epochs = 0
[evaluation]
every_epochs = 0
[output]
tensorboard = false
)");
  train({"train", folder_ + "/words.toml", "--set", "output.folder=" + folder_ + "/run"});
  expect_refused({"--data"}, "can't answer samples of a data set (Task::answers)");
}

// The most memory that a process has had which runs this to its end, in bytes.
std::int64_t peak_of(const std::vector<std::string>& words) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string program = convoy_program();
    std::vector<char*> arguments{const_cast<char*>(program.c_str())};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    (void)!std::freopen("/dev/null", "w", stdout);
    ::execv(program.c_str(), arguments.data());
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return std::int64_t{usage.ru_maxrss} << 10;
}

// 42 million parameters, and as much momentum in the checkpoint: what a network needs beside the
// program is its weights, once.
TEST_F(Predict, ANetworkIsLoadedOnce) {
  constexpr std::int64_t kHidden = 3600, kParameters = 784 * kHidden + 3 * kHidden * kHidden,
                         kBytes = 4 * kParameters;
  const std::string mnist = source_ + "/data/mnist/t10k-";
  ASSERT_EQ(Job({"pack", mnist + "images-idx3-ubyte.gz", folder_ + "/few.tar", "--labels",
                 mnist + "labels-idx1-ubyte.gz", "--limit", "16"})
                .finish()
                .exit_status,
            0);
  const auto recipe = [this](const std::string& name, std::int64_t hidden,
                             const std::string& weights) {
    write_text(folder_ + "/" + name + ".toml",
               "threads = 1\n[model]\nname = \"speech-dnn\"\n" + weights +
                   "[model.options]\nhidden = " + std::to_string(hidden) + R"(
[data]
reader = "packed"
[data.train]
files = ["few.tar"]
[data.validation]
files = ["few.tar"]
[optimizer]
name = "sgd"
lr = 0.001
momentum = 0.9
[training]
batch = 8
steps = 1
epochs = 0
[evaluation]
every_epochs = 0
[output]
tensorboard = false
)");
  };
  const auto network = [&](const std::string& run, std::int64_t hidden) {
    recipe(run, hidden, "");
    train(
        {"train", folder_ + "/" + run + ".toml", "--set", "output.folder=" + folder_ + "/" + run});
  };
  network("large", kHidden);
  network("small", 16);
  const auto use = [&](const std::string& what, const std::string& run,
                       const std::vector<std::string>& more = {}) {
    return peak_of(together({what, folder_ + "/" + run}, more));
  };
  const std::int64_t base = use("eval", "small");
  const std::int64_t evaluating = use("eval", "large") - base;
  EXPECT_GT(evaluating, kBytes * 9 / 10);
  EXPECT_LT(evaluating, kBytes * 3 / 2);
  EXPECT_LT(use("predict", "large", {"--data"}) - base, kBytes * 3 / 2);
  // From a file of weights.
  ASSERT_EQ(
      Job({"export", folder_ + "/large", folder_ + "/large.safetensors"}).finish().exit_status, 0);
  recipe("weights", kHidden, "weights = \"large.safetensors\"\n");
  EXPECT_LT(use("eval", "weights.toml") - base, kBytes * 3 / 2);
}

}  // namespace
}  // namespace convoy::cli
