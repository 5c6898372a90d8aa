// What `convoy job` does with jobs that end, well or badly, and with bad command lines.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <sstream>
#include <thread>

#include "convoy/base/system.h"
#include "tests/cli/job_script.h"

namespace convoy::cli {
namespace {

// The script of a role that goes on when the test lets it.
const std::string kUntilGo = "until [ -e $HERE/go ]; do sleep 0.01; done";

TEST(Roles, EndWhenAllAreDone) {
  const JobResult result =
      run(role("a", "echo one; echo two") + role("b", "echo $CONVOY_ROLE_INDEX", "count = 2"));
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.err, "");
  Lines lines = lines_of(result.out);
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (Lines{"[a] one", "[a] two", "[b-0] 0", "[b-1] 1"}));
}

TEST(Roles, KnowWhoTheyAre) {
  const std::string script =
      "echo $CONVOY_ROLE $CONVOY_ROLE_INDEX $CONVOY_ROLE_COUNT $CONVOY_ROLE_RESTARTS $OWN; "
      "echo $CONVOY_JOB_ID; stat -c '%a %F' $CONVOY_JOB_FOLDER; cat; echo end";
  const JobResult result = run(role("a", script, "count = 2\nenv = { OWN = \"x y\" }"));
  const Lines lines = lines_of(result.out);
  for (const char* line : {"[a-0] a 0 2 0 x y", "[a-1] a 1 2 0 x y"})
    EXPECT_EQ(std::count(lines.begin(), lines.end(), line), 1) << result.out;
  EXPECT_EQ(count(result.out, "] mine-"), 2) << result.out;
  EXPECT_EQ(count(result.out, "] 700 directory"), 2) << result.out;
  EXPECT_EQ(count(result.out, "] end"), 2) << "standard input isn't empty";
}

TEST(Roles, FindEachOtherInTheFolder) {
  const JobResult result =
      run(role("server",
               "echo 4711 > $CONVOY_JOB_FOLDER/p; mv $CONVOY_JOB_FOLDER/p "
               "$CONVOY_JOB_FOLDER/port; sleep 1000",
               "until_done = false") +
          role("worker", "until cat $CONVOY_JOB_FOLDER/port 2>/dev/null; do sleep 0.01; done"));
  EXPECT_EQ(result.out, "[worker] 4711\n");
  EXPECT_EQ(result.exit_status, 0) << result.err;
}

TEST(Roles, AreNamedWhenTheyFail) {
  const std::string waits = "echo ready; sleep 1000";
  JobOfRoles job(role("a", waits, "count = 2") +
                 role("b",
                      "until [ -e $HERE/go ]; do sleep 0.01; done; for i in 1 2 3 4 5 6; do "
                      "echo line $i >&2; done; exit 3"));
  ASSERT_TRUE(job->wait_for("ready", 2));
  test::spill(job.path("go"), "");
  const JobResult result = end_of(job);
  EXPECT_EQ(result.exit_status, 1);
  const std::string end =
      "convoy job: b exited with status 3; the other 2 roles were ended\n"
      "convoy job: the last lines of b on standard error:\n"
      "convoy job:   line 2\nconvoy job:   line 3\nconvoy job:   line 4\nconvoy job:   line 5\n"
      "convoy job:   line 6\n";
  EXPECT_EQ(result.err.substr(result.err.find("convoy job")), end);
}

TEST(Roles, AreNamedWithTheirSignalOrStatus) {
  EXPECT_EQ(run(role("a", "kill -SEGV $$")).err,
            "convoy job: a was killed by signal 11 (Segmentation fault)\n");
  EXPECT_EQ(run(role("a", "exit 2")).exit_status, 2);
  EXPECT_EQ(run(role("a", "exit 75")).exit_status, 75);
  const JobResult none = run("[[role]]\nname = 'a'\ncommand = ['no-such']\nenv = { PATH = '/' }\n");
  EXPECT_EQ(none.exit_status, 127);
  EXPECT_EQ(
      none.err,
      "convoy job: a could not be started: cannot start 'no-such': No such file or directory\n");
}

TEST(Roles, AreStartedAgainWithPauses) {
  const std::string script =
      "echo run $CONVOY_ROLE_RESTARTS; [ $CONVOY_ROLE_RESTARTS = 2 ] || exit 4";
  const std::string rule = "restart = 'on_failure'\ndelay_s = 0.01\nrestarts = ";
  JobResult result = run(role("a", script, rule + "2"));
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.out, "[a] run 0\n[a] run 1\n[a] run 2\n");
  EXPECT_EQ(result.err,
            "convoy job: a exited with status 4; starting it again in 0.01 s (restart 1 of 2)\n"
            "convoy job: a exited with status 4; starting it again in 0.02 s (restart 2 of 2)\n");
  result = run(role("a", script, rule + "1"));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(last_line(result.err), "convoy job: a exited with status 4 after 1 restart");
}

TEST(Roles, AreAlwaysStartedAgainIfTheyAreToBe) {
  const JobResult result = run(
      role("server", "echo x >> $HERE/runs",
           "until_done = false\nrestart = 'always'\ndelay_s = 0") +
      role("worker", "until [ $(cat $HERE/runs 2>/dev/null | wc -l) -ge 4 ]; do sleep 0.01; done"));
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_GE(count(result.err, "server exited with status 0; starting it again in 0 s"), 3);
}

TEST(Roles, AreNotStartedAgainAfterTheEnd) {
  // The server is in its pause when the worker ends.
  JobOfRoles job(
      role("server", "exit 1", "until_done = false\nrestart = 'on_failure'\ndelay_s = 1000") +
      role("worker", kUntilGo));
  ASSERT_TRUE(job->wait_for("starting it again", 1, Job::Stream::err));
  test::spill(job.path("go"), "");
  const JobResult result = end_of(job);
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(count(result.err, "\n"), 1) << result.err;
}

TEST(Roles, AreStoppedInOrder) {
  const auto stops = [](const std::string& name, const std::string& more) {
    return role(name,
                "trap \"sleep 0.1; echo " + name +
                    " >> $HERE/stopped; exit 0\" TERM; "
                    "touch $HERE/" +
                    name + "; while :; do sleep 0.02; done",
                "until_done = false\n" + more);
  };
  JobOfRoles job(stops("store", "order = 3") + stops("server", "order = 2") + stops("cache", "") +
                 role("worker",
                      "until [ -e $HERE/store -a -e $HERE/server -a -e $HERE/cache ]; do "
                      "sleep 0.01; done"));
  EXPECT_EQ(end_of(job).exit_status, 0);
  EXPECT_EQ(test::slurp(job.path("stopped")), "cache\nserver\nstore\n");
}

TEST(Roles, AreStoppedOnRequest) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    JobOfRoles job(service("server") + role("worker",
                                            "trap 'echo bye; exit 143' TERM; echo ready; "
                                            "while :; do sleep 0.02; done"));
    ASSERT_TRUE(job->wait_for("ready", 2));
    kill(job->pid(), signal);
    const JobResult result = end_of(job);
    EXPECT_EQ(result.exit_status, 128 + signal);
    EXPECT_EQ(last_line(result.err),
              "convoy job: ended by " + describe_signal(signal) + "; the 2 roles were ended");
    EXPECT_LT(result.out.find("[worker] bye"), result.out.find("[server] stopped"));
    EXPECT_NE(result.out.find("[server] stopped"), std::string::npos);
  }
}

TEST(Roles, GoOnAfterAHangupThatIsIgnored) {
  for (const int last : {0, SIGTERM}) {
    JobOfRoles job(role("a", "echo ready; until [ -e $HERE/go ]; do sleep 0.02; done; echo done"),
                   {}, JobOfRoles::Start::ignoring_hangups);
    ASSERT_TRUE(job->wait_for("ready", 1));
    for (const int signal : {SIGHUP, SIGINT, last}) kill(job->pid(), signal);
    if (last == 0) test::spill(job.path("go"), "");
    const JobResult result = end_of(job);
    EXPECT_EQ(result.exit_status, last == 0 ? 0 : 128 + last) << result.err;
    EXPECT_EQ(count(result.out, "done"), last == 0 ? 1 : 0);
  }
}

TEST(Roles, AskToBeStartedAgain) {
  JobOfRoles job(service("server") + role("worker",
                                          "trap 'exit 75' TERM; echo ready; while :; do "
                                          "sleep 0.02; done"));
  ASSERT_TRUE(job->wait_for("ready", 2));
  kill(job->pid(), SIGTERM);
  EXPECT_EQ(end_of(job).exit_status, 75);
}

const char* const kStubborn = "trap '' TERM; echo ready; while :; do sleep 0.02; done";

TEST(Roles, AreKilledAfterTheGrace) {
  JobOfRoles job("[job]\ngrace_s = 0.2\n" + role("a", kStubborn));
  ASSERT_TRUE(job->wait_for("ready", 1));
  kill(job->pid(), SIGTERM);
  EXPECT_EQ(end_of(job).exit_status, 128 + SIGTERM);

  // The server ignores it by the time that the worker ends.
  const JobResult result =
      run("[job]\ngrace_s = 0.2\n" +
          role("server", "trap '' TERM; touch $HERE/go; while :; do sleep 0.02; done",
               "until_done = false") +
          role("worker", kUntilGo));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.err,
            "convoy job: server was killed by signal 9 (Killed) when it was told to stop\n");
}

TEST(Roles, AreKilledAtOnceWhenAskedTwice) {
  JobOfRoles job(
      "[job]\ngrace_s = 1000\n" +
      role("a", std::string("trap 'echo told' TERM; ") + "echo ready; while :; do sleep 0.02; done",
           "count = 3"));
  ASSERT_TRUE(job->wait_for("ready", 3));
  kill(job->pid(), SIGINT);
  ASSERT_TRUE(job->wait_for("told", 3));
  kill(job->pid(), SIGINT);
  EXPECT_EQ(end_of(job).exit_status, 128 + SIGINT);
}

TEST(Roles, GetUserSignals) {
  JobOfRoles job(role("a",
                      "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo ready; while :; "
                      "do sleep 0.02; done",
                      "count = 2"));
  ASSERT_TRUE(job->wait_for("ready", 2));
  kill(job->pid(), SIGUSR1);
  ASSERT_TRUE(job->wait_for("one", 2));
  kill(job->pid(), SIGUSR2);
  EXPECT_EQ(end_of(job).exit_status, 0);
}

TEST(Roles, MayBeDispensable) {
  const std::string dispensable = "essential = false";
  JobOfRoles job(role("a", "exit 3", dispensable) + role("b", kUntilGo + "; echo done"));
  ASSERT_TRUE(job->wait_for("a exited with status 3", 1, Job::Stream::err));
  test::spill(job.path("go"), "");
  JobResult result = end_of(job);
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.out, "[b] done\n");
  EXPECT_EQ(count(result.err, "convoy job: a exited with status 3; the job goes on without it\n"),
            1);
  result = run(role("a", "exit 3", dispensable + "\ncount = 2"));
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(last_line(result.err), "convoy job: no role came to its end with status 0");
}

TEST(Roles, LeaveNoDaemons) {
  JobOfRoles job(role("a",
                      "setsid sh -c 'trap \"\" TERM; echo ready; sleep 1000' & "
                      "until [ -e $HERE/go ]; do sleep 0.01; done"));
  ASSERT_TRUE(job->wait_for("ready", 1));
  test::spill(job.path("go"), "");
  EXPECT_EQ(end_of(job).exit_status, 0);
}

TEST(Roles, PrintWholeLines) {
  constexpr int kLines = 20000;
  const std::string many =
      "i=0; while [ $i -lt " + std::to_string(kLines) +
      " ]; do printf \"line $CONVOY_ROLE_INDEX \"; echo $i end; i=$((i+1)); done; printf rest";
  const JobResult result = run(role("a", many, "count = 3"));
  int next[3] = {0, 0, 0};
  int odd = 0;
  for (const std::string& line : lines_of(result.out)) {
    int label = -1, index = -1, number = -1, length = 0;
    if (std::sscanf(line.c_str(), "[a-%d] line %d %d end%n", &label, &index, &number, &length) ==
            3 &&
        length == static_cast<int>(line.size()) && label == index) {
      odd += number != next[index]++;
    } else {
      odd += line.substr(4) != "] rest";
    }
  }
  EXPECT_EQ(odd, 0);
  for (const int n : next) EXPECT_EQ(n, kLines);
  EXPECT_EQ(count(result.out, "rest\n"), 3);
}

TEST(Roles, PrintAnything) {
  // Bytes of every value, what looks like a report or a message of mpirun, and a line without end.
  const JobResult result = run(
      role("junk",
           "i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %o $i)\"; i=$((i+1)); done >&2; "
           "printf '\\036convoy-0 1 2 3\\n\\036' >&2; "
           "printf '%074d\\nPrimary job  terminated normally, but\\n%074d\\n' 0 0 | tr 0 - >&2") +
      role("long", "head -c 300000 /dev/zero | tr '\\0' x; echo; echo after"));
  EXPECT_EQ(result.exit_status, 0);
  std::string junk;
  for (int byte = 0; byte < 256; ++byte) junk += static_cast<char>(byte);
  junk.insert(11, "[junk] ");  // after the newline
  const std::string dashes = std::string(74, '-');
  EXPECT_EQ(result.err, "[junk] " + junk + "\036convoy-0 1 2 3\n[junk] \036" + dashes +
                            "\n[junk] Primary job  terminated normally, but\n[junk] " + dashes +
                            "\n");
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), 'x'), 300000);
  for (const std::string& line : lines_of(result.out))
    EXPECT_EQ(line.rfind("[long] ", 0), 0u) << line.substr(0, 80);
  EXPECT_EQ(last_line(result.out), "[long] after");
}

TEST(Roles, EndThoughNobodyReads) {
  JobOfRoles job(role("a", "yes; exit 1", "count = 2"));
  wait_until([&] { return job->processes("yes").size() == 2; });
  kill(job->pid(), SIGTERM);
  wait_until([&] { return job->processes("yes").empty(); });
  EXPECT_EQ(end_of(job).exit_status, 128 + SIGTERM);
}

TEST(Roles, AreJudgedThoughNobodyReads) {
  JobOfRoles job(role("a", "yes >&2 & until [ -e $HERE/go ]; do sleep 0.01; done; exit 0"));
  wait_until([&] { return !job->processes("yes").empty(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // all pipes are full
  test::spill(job.path("go"), "");
  wait_until([&] { return job->processes("yes").empty(); });
  // Longer than a supervisor has to tell how its program did when it is in a hurry.
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_EQ(end_of(job).exit_status, 0);
}

TEST(Roles, NeedNobodyToRead) {
  JobOfRoles job(role("a",
                      "head -c 200000 /dev/zero | tr '\\0' x; "
                      "until [ -e $HERE/go ]; do sleep 0.01; done"));
  wait_until([&] { return test::entries(job.temporary()) == 1; });
  test::spill(job.path("go"), "");
  wait_until([&] { return test::entries(job.temporary()) == 0; });
  kill(job->pid(), SIGTERM);
  EXPECT_GE(job->wait_until_gone(), 0);
  EXPECT_EQ(end_of(job).exit_status, 0);
}

TEST(Roles, MayBeAHundred) {
  const JobResult result = run(role("a", "echo here", "count = 100"));
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(count(result.out, "] here\n"), 100);
}

TEST(JobCommand, SaysWhatIsWrong) {
  const test::Scratch scratch;
  test::spill(scratch.path("bad.toml"), "[[role]]\nname = 'a'\ncommand = []\norder = 'x'\n");
  test::spill(scratch.path("folder.toml"), "[job]\nfolder = '/proc/none'\n" + role("a", "true"));
  const std::pair<Lines, std::string> cases[] = {
      {{"job"}, "FILE is required; 'convoy job --help' says what it is"},
      {{"job", "/nowhere.toml"}, "/nowhere.toml"},
      {{"job", "--dry-runs", "x"}, "did you mean --dry-run?"},
      {{"job", "--grace", "-1", "x"}, "'-1' is not a number above 0"},
      {{"job", scratch.path("bad.toml")}, "a.order: has to be a whole number"},
      {{"job", scratch.path("folder.toml")},
       "no folder for the job can be made in /proc/none: No such"}};
  for (const auto& [arguments, part] : cases) {
    Job job(arguments);
    const JobResult result = job.finish();
    EXPECT_EQ(result.exit_status, 2) << part;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
}

TEST(JobCommand, RunsTheRoles) {
  const test::Scratch scratch;
  test::spill(scratch.path("mine.toml"), role("a", "echo here; sleep 0.1; exit 3"));
  Job job({"job", scratch.path("mine.toml")});
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.out, "[a] here\n");
  EXPECT_EQ(result.err, "convoy job: a exited with status 3\n");
}

TEST(JobCommand, ShowsWhatItWouldDo) {
  const test::Scratch scratch;
  test::spill(scratch.path("mine.toml"), role("a", "touch " + scratch.path("ran")));
  Job job({"job", "--dry-run", "--grace", "3", scratch.path("mine.toml")});
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.out,
            "# job mine: 1 role, 3 s of grace when stopped\n# a (until done, stop order 0)\ncd " +
                std::filesystem::current_path().string() +
                " && CONVOY_ROLE=a CONVOY_ROLE_INDEX=0 CONVOY_ROLE_COUNT=1 CONVOY_ROLE_RESTARTS=0 "
                "sh -c 'touch " +
                scratch.path("ran") + "'\n");
  EXPECT_FALSE(std::filesystem::exists(scratch.path("ran")));
}

}  // namespace
}  // namespace convoy::cli
