// A user's files are never removed or replaced: all options of all commands, from the program's own
// list, with the files of a user's.
#include "cli/writes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "convoy/base/files.h"
#include "tests/base/scratch.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string source(const std::string& file) {
  return read_text_file(std::string(getenv("CONVOY_SOURCE_DIR")) + "/" + file);
}

// What names files and folders that are only read, and what names none though its type does not
// say so. Whoever adds an option has to say in which kind it is: by its validator (cli/writes.h),
// or in that file.
std::set<std::string> not_written() {
  std::set<std::string> names;
  std::istringstream lines(source("tests/cli/not_written.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) names.insert(line);
  }
  return names;
}

// Commands that look by themselves, before they write: what they write to has another name than the
// option, or a flag lets them replace it.
const std::set<std::string> kLookThemselves{
    "export file",                // a file that is there, unless --overwrite
    "pack paths",                 // OUT, unless --overwrite; OUT.index and OUT.report.tsv
    "index tar",                  // FILE.tar.index
    "bench checkpoint --folder",  // only a new folder in it
    "bench server --folder",      // only a new folder in it
};

// Each command that has options, filled, with its words.
void for_each_command(const std::function<void(CLI::App&, const Words&)>& look) {
  CLI::App names("", "convoy");
  Outcome outcome;
  const Words rest;
  add_commands(names, rest, outcome);
  const std::function<void(CLI::App&, const Words&)> walk = [&](CLI::App& app, const Words& words) {
    const auto below = app.get_subcommands([](CLI::App*) { return true; });
    if (below.empty()) look(app, words);
    for (CLI::App* one : below) {
      Words more = words;
      more.push_back(one->get_name());
      walk(*one, more);
    }
  };
  for (CLI::App* command : names.get_subcommands([](CLI::App*) { return true; })) {
    CLI::App app("", "convoy");
    add_commands(app, rest, outcome);
    // What LibTorch is needed for has its options when it was chosen.
    EXPECT_THROW(app.parse(Words{"--help", command->get_name()}), CLI::CallForHelp)
        << command->get_name();
    walk(*app.get_subcommand(command->get_name()), {command->get_name()});
  }
}

std::string text_of(const Words& words, const CLI::Option& option) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  const auto longs = option.get_lnames();
  return text + (longs.empty() ? option.get_name() : "--" + longs.front());
}

bool takes_a_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0 && !option.get_type_name().empty();
}

// Whether the option may name a file or a folder.
bool may_be_a_path(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  for (const char* part : {"FILE", "DIR", "FOLDER", "RUN", "OUT", "PATH", "TEXT", "RECIPE",
                           "CHECKPOINT", "INPUTS", "SOURCE"}) {
    if (type.find(part) != std::string::npos) return true;
  }
  return false;
}

bool is_written(CLI::Option& option) {
  try {
    option.get_validator(kWrites);
    return true;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

class UsersFolder : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* file : {"README",
                             "recipe.toml",
                             "plan.toml",
                             "machine.toml",
                             "report.html",
                             "index.html",
                             "metrics.jsonl",
                             "points.jsonl",
                             "checks.jsonl",
                             "rows.jsonl",
                             "job.json",
                             "timeline.json",
                             "node1.pem",
                             "node1.key",
                             "rank-0.log",
                             "lock",
                             "runs/a/metrics.jsonl",
                             "runs/1234-abcdef/recipe.toml",
                             "trials/mine/notes",
                             "checkpoints/best.pt",
                             "samples/cat.jpg",
                             "recipes/a.toml",
                             "logs/a.txt",
                             "server-1/a",
                             "mine.tar",
                             "mine.tar.index",
                             "mine.tar.report.tsv"}) {
      put(file, file == std::string("index.html") ? "<!DOCTYPE html>\n<title>mine</title>\n"
                                                  : "{\"mine\": true}");
    }
    before_ = all();
  }
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(mine_ + "/" + file).parent_path());
    test::spill(mine_ + "/" + file, text);
  }
  // Names with contents.
  std::map<std::string, std::string> all() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(scratch_.path())) {
      files[entry.path().string()] =
          entry.is_directory() ? "a folder" : read_text_file(entry.path().string());
    }
    return files;
  }

  const test::Scratch scratch_;
  const std::string mine_ = scratch_.path("mine");
  std::map<std::string, std::string> before_;
};

TEST_F(UsersFolder, IsRefusedByEachOptionThatWrites) {
  const std::string page = source("docs/files.md");
  const std::set<std::string> others = not_written();
  std::set<std::string> written, known;
  for_each_command([&](CLI::App& app, const Words& words) {
    for (CLI::Option* option : app.get_options()) {
      if (!takes_a_value(*option)) continue;
      const std::string text = text_of(words, *option);
      if (!is_written(*option)) {
        if (!may_be_a_path(*option)) continue;
        const bool listed = others.count(text) + kLookThemselves.count(text) > 0;
        EXPECT_TRUE(listed) << '"' << text << "\", of type " << option->get_type_name()
                            << ": is anything written there? Then it needs a check of cli/writes.h";
        known.insert(text);
        continue;
      }
      written.insert(text);
      const std::string name = text.substr(text.rfind(' ') + 1);
      EXPECT_NE(page.find('`' + name), std::string::npos) << text << " is not in docs/files.md";
      for (const auto& [path, content] : before_) {
        // A folder of the user's that is one of Convoy's by all its names is Convoy's.
        const std::string why = (*option->get_validator(kWrites))(std::string(path));
        EXPECT_NE(why.find(path), std::string::npos) << text << " " << path << ": " << why;
      }
    }
  });
  EXPECT_GE(written.size(), 45u);
  for (const std::string& text : others)
    EXPECT_TRUE(known.count(text) > 0) << text << " is no option";
  for (const std::string& text : kLookThemselves)
    EXPECT_TRUE(known.count(text) > 0) << text << " is no option";
  EXPECT_EQ(all(), before_);
}

// From the command line: before anything else is looked at.
TEST_F(UsersFolder, IsNamedInTheMessage) {
  for_each_command([&](CLI::App& filled, const Words& words) {
    for (CLI::Option* option : filled.get_options()) {
      if (!is_written(*option)) continue;
      CLI::App app("", "convoy");
      Outcome outcome;
      const Words rest;
      add_commands(app, rest, outcome);
      Words line = words;
      if (!option->get_lnames().empty()) line.push_back("--" + option->get_lnames().front());
      line.push_back(mine_);
      try {
        app.parse(Words(line.rbegin(), line.rend()));
        ADD_FAILURE() << text_of(words, *option) << " is taken";
      } catch (const CLI::ValidationError& error) {
        EXPECT_NE(std::string(error.what()).find(mine_), std::string::npos) << error.what();
      } catch (const std::exception& error) {
        ADD_FAILURE() << text_of(words, *option) << ": " << error.what();
      }
    }
  });
  EXPECT_EQ(all(), before_);
}

// Commands that look by themselves.
TEST_F(UsersFolder, IsLeftByPackIndexAndReport) {
  const auto refused = [&](const Words& line, const std::string& why) {
    const std::map<std::string, std::string> before = all();
    CLI::App app("", "convoy");
    Outcome outcome;
    const Words rest;
    add_commands(app, rest, outcome);
    std::string said;
    try {
      app.parse(Words(line.rbegin(), line.rend()));
    } catch (const std::exception& error) {
      said = error.what();
    }
    EXPECT_NE(said.find(why), std::string::npos) << line.front() << ": " << said;
    EXPECT_EQ(all(), before) << line.front();
  };
  refused({"pack", mine_, mine_ + "/mine.tar"}, mine_ + "/mine.tar exists");
  refused({"pack", mine_, mine_ + "/mine.tar", "--overwrite"},
          mine_ + "/mine.tar.index is there, and is not an index of Convoy");
  fs::remove(mine_ + "/mine.tar.index");
  refused({"pack", mine_, mine_ + "/mine.tar", "--overwrite"},
          mine_ + "/mine.tar.report.tsv is there, and is not a report of convoy pack");
  put("mine.tar.index", "mine");
  refused({"index", mine_ + "/mine.tar"}, mine_ + "/mine.tar.index is there");
  refused({"report", mine_}, mine_ + "/report.html is there, and is not a page of convoy report");
  refused({"report", mine_, "-o", mine_ + "/index.html"}, mine_ + "/index.html is there");
  refused({"certs", mine_, "--hosts", "node1"}, mine_ + " has something in it");
  // A folder of certificates, of one of which the key alone is there.
  fs::create_directories(scratch_.path("keys"));
  test::spill(scratch_.path("keys/node1.key"), "mine");
  refused({"certs", scratch_.path("keys"), "--hosts", "node1"}, "node1.key alone");
  // A plan's page is none of a run.
  fs::create_directories(scratch_.path("plan"));
  test::spill(scratch_.path("plan/points.jsonl"),
              "{\"fingerprint\":\"f\",\"kind\":\"plan\",\"metric\":\"loss\"}\n");
  test::spill(scratch_.path("plan/recipe.toml"), "");
  test::spill(scratch_.path("plan/report.html"), "<!DOCTYPE html>\n" + page_mark(kPlanPage) + "\n");
  refused({"report", scratch_.path("plan")}, "is the folder of a plan, not of a run");
  refused({"report", mine_, "-o", scratch_.path("plan/report.html")},
          scratch_.path("plan/report.html is there, and is not a page of convoy report"));
}

// What Convoy has written itself is written anew, and so is what is empty or new.
TEST(OwnFiles, AreKnownByTheirMarks) {
  const test::Scratch scratch;
  const std::string file = scratch.path("file");
  for (const OwnFile* kind : {&kTableFile, &kMachineFile, &kTimelineFile, &kRunPage, &kPlanPage,
                              &kComparisonPage, &kPointsFile, &kMetricsFile, &kRulesFile}) {
    fs::remove(file);
    EXPECT_EQ(why_not_file(file, *kind), std::nullopt) << kind->what;
    test::spill(file, "");
    EXPECT_EQ(why_not_file(file, *kind), std::nullopt) << kind->what;
    EXPECT_EQ(why_not_file("/dev/null", *kind), std::nullopt) << kind->what;
  }
  const auto taken = [&](const OwnFile& kind, const std::string& text) {
    test::spill(file, text);
    return !why_not_file(file, kind);
  };
  const std::string page = "<!DOCTYPE html>\n<html>\n";
  EXPECT_TRUE(taken(kTableFile, std::string(kTableMark) + "\"kind\":\"run\"}\n"));
  EXPECT_FALSE(taken(kTableFile, "{\"kind\":\"run\"}\n"));
  EXPECT_TRUE(taken(kRunPage, page + page_mark(kRunPage)));
  EXPECT_FALSE(taken(kRunPage, page + page_mark(kPlanPage)));
  EXPECT_FALSE(taken(kRunPage, page));
  EXPECT_TRUE(taken(kMachineFile, std::string(kMachineMark) + "[compute]\n"));
  EXPECT_FALSE(taken(kMachineFile, "[compute]\n"));
  EXPECT_FALSE(taken(kRulesFile, "ranks=2 nodes=1 ring;\n"));
  fs::remove(file);
  fs::create_symlink("nowhere", file);
  EXPECT_NE(why_not_file(file, kTableFile).value_or("").find("leads nowhere"), std::string::npos);
}

// What a server, and a job whose processes were killed, leave behind is what they go on with.
TEST(OwnFolders, OfServersAreKnownWithAllThatIsInThem) {
  const test::Scratch scratch;
  const auto with = [&](const std::string& name, const std::vector<std::string>& entries) {
    for (const std::string& entry : entries)
      fs::create_directories(scratch.path(name) + "/" + entry);
    return scratch.path(name);
  };
  EXPECT_EQ(why_not_folder(with("server", {"shard-1", "shard-12"}), kServerFolder), std::nullopt);
  EXPECT_EQ(why_not_folder(with("shard", {"log-00000000000000000042", "snapshot-42-1", "identity",
                                          "partial-received", "lock"}),
                           kServerFolder),
            std::nullopt);
  EXPECT_NE(why_not_folder(with("other", {"shard-1", "shards"}), kServerFolder), std::nullopt);
  const std::string servers =
      with("servers", {"coordinator", "server-1", "server-2", "before", "convoy-job-downpour-1-2"});
  EXPECT_EQ(why_not_folder(servers, kServersFolder), std::nullopt);
  EXPECT_NE(why_not_folder(with("mine", {"server-1", "notes"}), kServersFolder), std::nullopt);
}

}  // namespace
}  // namespace convoy::cli
