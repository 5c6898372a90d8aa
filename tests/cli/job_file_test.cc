#include "cli/job/job_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"

namespace convoy::cli {
namespace {

JobFile parse(const std::string& text) { return parse_job_file(text, "folder/mine.toml"); }

std::string problem(const std::string& text) {
  return test::message_of<UsageError>([&] { parse(text); });
}

// A role with nothing wrong, and more keys.
std::string role(const std::string& more) {
  return "[[role]]\nname = \"a\"\ncommand = [\"true\"]\n" + more + "\n";
}

TEST(JobFile, HasDefaults) {
  const JobFile job = parse(role(""));
  EXPECT_EQ(job.options.name, "mine");
  EXPECT_EQ(job.options.grace_s, 10);
  ASSERT_EQ(job.roles.size(), 1u);
  const Role& only = job.roles[0];
  EXPECT_EQ(only.argv, std::vector<std::string>{"true"});
  EXPECT_TRUE(only.until_done && only.essential);
  EXPECT_EQ(only.restart.when, Restart::When::never);
  EXPECT_EQ(only.stop_order, 0);
  EXPECT_EQ(parse(role("until_done = false")).roles[0].stop_order, 1);
}

TEST(JobFile, TakesEveryKey) {
  const JobFile job = parse(R"([job]
name = "big"
grace_s = 2.5
folder = "/shared"
[[role]]
name = "server"
count = 3
command = ["/nowhere/server", "--port", "0"]
env = { B = "2", A = "x=y z" }
hosts = ["node1", "localhost"]
until_done = false
essential = false
restart = "on_failure"
fatal = [2, 75]
restarts = 7
delay_s = 40
longest_delay_s = 50.5
order = -3
)");
  EXPECT_EQ(job.options.name, "big");
  EXPECT_EQ(job.options.grace_s, 2.5);
  EXPECT_EQ(job.options.folder, "/shared");
  ASSERT_EQ(job.roles.size(), 3u);
  const Role& last = job.roles[2];
  EXPECT_EQ(last.index, 2);
  EXPECT_EQ(last.host, "node1");
  EXPECT_EQ(job.roles[1].host, "");
  EXPECT_EQ(last.env, (std::vector<std::string>{"A=x=y z", "B=2"}));
  EXPECT_FALSE(last.until_done || last.essential || last.last_essential);
  EXPECT_EQ(last.fatal, (std::vector<int>{2, 75}));
  EXPECT_EQ(last.restart.when, Restart::When::on_failure);
  EXPECT_EQ(last.restart.times, 7);
  EXPECT_EQ(last.restart.delay_s, 40);
  EXPECT_EQ(last.restart.longest_delay_s, 50.5);
  EXPECT_EQ(last.stop_order, -3);
  EXPECT_EQ(label_of(last, job.roles), "server-2");
}

TEST(JobFile, NamesWhatIsWrongWhere) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "mine.toml: the job has no roles"},
      {role("count = 0"), "mine.toml: the job has no roles"},
      {"[[role]]\nname = 'a'\n", "mine.toml:1: a: command is missing"},
      {"[[role]]\ncommand = ['true']\n", "mine.toml:1: role[0]: name is missing"},
      {"[[role]]\nname = 'a/b'\ncommand = ['true']\n", "mine.toml:2: role[0].name: 'a/b'"},
      {"[[role]]\nname = 'a'\ncommand = []\n", "mine.toml:3: a.command: is empty"},
      {"[[role]]\nname = 'a'\ncommand = ['']\n", "mine.toml:3: a.command: is empty"},
      {"[[role]]\nname = 'a'\ncommand = 'true'\n", "as [\"program\", \"argument\"]"},
      {"[[role]]\nname = 'a'\ncommand = ['true', \"a\\u0000b\"]\n", "has to be a list of texts"},
      {"[[role]]\nname = 'a'\ncommand = ['no-such']\n", "there is no program 'no-such' in PATH"},
      {"[[role]]\nname = 'a'\ncommand = ['/tmp']\n", "'/tmp' is a folder, not a program"},
      {role("comand = 1"), "mine.toml:4: a.comand: there is no such key; did you mean command?"},
      {role("env = { A = 1 }"), "mine.toml:4: a.env: A has to be a text"},
      {role("env = { \"A=B\" = 'x' }"), "a.env: 'A=B' is no name"},
      {role("env = 'A=B'"), "a.env: has to be a table"},
      {role("count = -1"), "a.count: has to be a whole number from 0 to 4096"},
      {role("count = 4097"), "a.count: has to be a whole number from 0 to 4096"},
      {role("count = 1.5"), "a.count: has to be a whole number"},
      {role("order = 1001"), "a.order: has to be a whole number"},
      {role("hosts = ['a:2']"), "a.hosts: 'a:2' is no host"},
      {role("hosts = ['-x']"), "a.hosts: '-x' is no host"},
      {role("hosts = ['elsewhere']"), "mine.toml: job.folder is missing"},
      {role("essential = 'yes'"), "a.essential: has to be true, false or \"last\""},
      {role("fatal = [2, 256]"), "a.fatal: has to be a list of whole numbers from 1 to 255"},
      {role("restart = 'on-failure'"), "did you mean on_failure?"},
      {role("restart = 'always'"), "add until_done = false"},
      {role("restarts = 3"), "a.restarts: is for restart = \"on_failure\", not never"},
      {role("restart = 'on_failure'\nrestarts = 0"), "a.restarts: has to be a whole number from 1"},
      {role("delay_s = 1"), "a.delay_s: means nothing without restart"},
      {role("restart = 'on_failure'\ndelay_s = -1"), "a.delay_s: has to be a number of seconds"},
      {role("restart = 'on_failure'\ndelay_s = nan"), "a.delay_s: has to be a number of seconds"},
      {role("restart = 'on_failure'\nlongest_delay_s = 0.5"), "is less than delay_s"},
      {role("") + role(""), "'a' is the name of another role, too"},
      {role("count = 2") + "[[role]]\nname = 'a-1'\ncommand = ['true']\n", "be called a-1"},
      {"[job]\ngrace = 1\n" + role(""), "mine.toml:2: job.grace: there is no such key; did you "},
      {"job = 1\n" + role(""), "job: has to be a table"},
      {"role = 1\n", "role: has to be a list of tables"},
      {"[role]\nname = 'a'\n", "role: has to be a list of tables"},
      {"[[rolle]]\n" + role(""),
       "mine.toml:1: rolle: there is no such key; did you mean [[role]]?"},
      {"[[role\n", "mine.toml:1: "}};
  for (const auto& [text, part] : cases)
    EXPECT_NE(problem(text).find(part), std::string::npos) << text << "\n" << problem(text);
}

TEST(JobFile, SaysAllThatIsWrong) {
  const std::string all = problem("[job]\ngrace = 1\n" + role("counts = 1\nrestart = 'x'"));
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 2) << all;
}

TEST(JobFile, LooksForProgramsOnlyWhereTheyRun) {
  EXPECT_EQ(problem("[job]\nfolder = '/s'\n[[role]]\nname = 'a'\ncommand = ['/nowhere/x']\n"
                    "hosts = ['node1']\n"),
            "");
  EXPECT_EQ(problem("[[role]]\nname = 'a'\ncommand = ['no-such']\nenv = { PATH = '/mine' }\n"), "");
}

TEST(JobFile, IsDescribed) {
  EXPECT_EQ(
      describe(parse("[job]\nfolder = '/s'\n" +
                     role("count = 2\nhosts = ['node1', 'localhost']\nenv = { A = 'b c' }\n"
                          "until_done = false\nessential = false\n"
                          "restart = 'on_failure'\nrestarts = 2")),
               {"/my jobs"}),
      "# job mine: 2 roles, 10 s of grace when stopped\n"
      "# To start it by hand: each line in a terminal of its own, in this order.\n"
      "# a-0 on node1 (service, not essential, restarted up to 2 times after 1 s to 30 s, stop "
      "order 1)\n"
      "cd '/my jobs' && A='b c' true\n"
      "# a-1 (service, not essential, restarted up to 2 times after 1 s to 30 s, stop order 1)\n"
      "cd '/my jobs' && A='b c' true\n");
}

// What a shell makes of the lines is what the job would start.
TEST(JobFile, IsDescribedAsAShellTakesIt) {
  const test::Scratch scratch;
  const JobFile job = parse(
      "[[role]]\nname = 'a'\ncount = 2\nenv = { A = \"it's $HOME\", B = '' }\n"
      "command = ['sh', '-c', 'pwd; echo $CONVOY_ROLE $CONVOY_ROLE_INDEX of $CONVOY_ROLE_COUNT; "
      "printf \"<%s>\" \"$@\"; echo \"$A\"', 'x', 'a b', '', \"it's\", '$HOME', '*', 'k=\"v\"']\n");
  const std::string folder = scratch.path("a folder"), out = scratch.path("out");
  std::filesystem::create_directory(folder);
  test::spill(scratch.path("lines"), describe(job, {folder, true}));
  ASSERT_EQ(std::system(("sh " + scratch.path("lines") + " > " + out).c_str()), 0);
  const std::string arguments = "<a b><><it's><$HOME><*><k=\"v\">it's $HOME\n";
  EXPECT_EQ(test::slurp(out),
            folder + "\na 0 of 2\n" + arguments + folder + "\na 1 of 2\n" + arguments);
}

}  // namespace
}  // namespace convoy::cli
