// Where updates of a plan are timed, and in which folders plans are.
#include <filesystem>
#include <set>
#include <sstream>

#include "cli/plan/measure.h"
#include "cli/plan/trial.h"
#include "cli/plan/unlike_hosts.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "tests/cli/fake_plan.h"

namespace convoy::cli {
namespace {

class PlanWorkplace : public FakePlan {
 protected:
  // What trainings were started with.
  std::multiset<std::string> begun() const {
    std::istringstream lines(log());
    std::multiset<std::string> all;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("begin ")) all.insert(line.substr(6));
    }
    return all;
  }
};

Workplace of_hosts(const std::string& hosts) {
  return {.cores = {0, 1}, .places = places_of({0, 1}, {}), .hosts = parse_hosts(hosts)};
}

std::string text_of(const Place& place) {
  std::string text = std::to_string(place.workers) + " " + format_hosts(place.hosts) + place.gpu;
  for (const int core : place.cores) text += " " + std::to_string(core);
  return text;
}

TEST(PlanPlaces, HaveACoreOrASlotForEachWorker) {
  const Workplace here{.cores = {4, 5, 6}, .places = places_of({4, 5, 6}, {}), .hosts = {}};
  EXPECT_EQ(here.most(), 3);
  EXPECT_EQ(text_of(here.place(1)), "1  4");
  EXPECT_EQ(text_of(here.place(2)), "2  4 5");
  EXPECT_TRUE(here.name().ends_with(", 3 cores")) << here.name();
  const Workplace pairs{.cores = {4, 5, 6, 7, 8},
                        .places = places_of({4, 5, 6, 7, 8}, {}, 2),
                        .hosts = {},
                        .threads = 2};
  EXPECT_EQ(pairs.most(), 2);
  EXPECT_EQ(text_of(pairs.place(1)), "1  4 5");
  EXPECT_EQ(text_of(pairs.place(2)), "2  4 5 6 7");
  const Workplace gpus{.cores = {4, 5}, .places = places_of({4, 5}, {"0", "1"}), .hosts = {}};
  EXPECT_EQ(text_of(gpus.place(1)), "1 0 4");
  EXPECT_EQ(text_of(gpus.place(2)), "2 ");
  EXPECT_TRUE(gpus.name().ends_with(", 2 cores, 2 GPUs")) << gpus.name();
  const Workplace one{.cores = {4}, .places = places_of({4}, {"1"}), .hosts = {}, .gpu = "X 1"};
  EXPECT_TRUE(one.name().ends_with(", 1 core, 1 GPU X 1")) << one.name();
  const Workplace hosts = of_hosts("a,b:2,c");
  EXPECT_EQ(hosts.most(), 4);
  EXPECT_EQ(text_of(hosts.place(1)), "1 a:1");
  EXPECT_EQ(text_of(hosts.place(2)), "2 a:1,b:1");
  EXPECT_EQ(text_of(hosts.place(4)), "4 a:1,b:2,c:1");
  EXPECT_EQ(hosts.name(), "hosts a:1,b:2,c:1");
  EXPECT_TRUE(hosts.is("") && hosts.is(hosts.name()) && hosts.is("hosts a:1,b:2,c:1,d:1"));
  EXPECT_FALSE(hosts.is("hosts a:1,b:2") || hosts.is("hosts a:1,b:2,c:12") ||
               hosts.is(here.name()));
  EXPECT_FALSE(here.is(hosts.name()) || here.is(here.name() + ", 1 GPU"));
  EXPECT_EQ(hosts.name(2), "hosts a:1,b:1");
  // Names of before did not say what GPUs there are.
  const std::string name = one.name();
  EXPECT_TRUE(one.was(name.substr(0, name.size() - 4)) && one.is(name.substr(0, name.size() - 4)));
  EXPECT_TRUE(one.was(name.substr(0, name.find(", 1 GPU"))));
  EXPECT_FALSE(one.was(name) || one.was("") || one.was(name.substr(0, 2)) ||
               hosts.was("hosts a:1") || here.was(here.name() + ", 1 GPU"));
}

// Updates on the first host, exchanges on as many as there are workers; runs to the target here.
TEST_F(PlanWorkplace, HostsTimeAndThisMachineTrains) {
  Sweep one = sweep();
  one.workplace.hosts = parse_hosts("a,b:2");
  one.workers = {1, 2, 3};
  one.repetitions = 1;
  one.timed = {4, 8, 64};
  one.seeds = 1;
  PlanFolder folder = open(false);
  told([&](std::FILE* out) { measure(planned, one, folder, out); });
  EXPECT_EQ(begun(), (std::multiset<std::string>{
                         "8 -",  // before training
                         "4 - -n 1 --hosts a:1", "8 - -n 1 --hosts a:1", "64 - -n 1 --hosts a:1",
                         "8 - -n 1 --hosts b:1",  // whether it is like the first
                         "64 - -n 2 --hosts a:1,b:1", "64 - -n 3 --hosts a:1,b:2", "8 -", "64 -"}));
  EXPECT_EQ(folder.points().machine, "hosts a:1,b:2");
  EXPECT_EQ(folder.points().communication.size(), 2u);
}

// An update waits for the slowest, and is predicted by the times of the first.
TEST_F(PlanWorkplace, HostsThatAreUnlikeAreSaid) {
  script({{"slow", "c"}, {"times", 3}});
  Sweep one = sweep();
  one.workplace.hosts = parse_hosts("a:2,b,c,d");
  one.workers = {1, 4};
  one.timed = {4, 8, 64};
  one.seeds = 1;
  PlanFolder folder = open(false);
  const auto measured = [&] {
    return told([&](std::FILE* out) { measure(planned, one, folder, out); });
  };
  const std::string text = measured();
  EXPECT_TRUE(has(text, "update of 8 samples on host b: 100")) << text;
  EXPECT_TRUE(has(text, "update of 8 samples on host c: 300")) << text;
  EXPECT_FALSE(has(text, "on host d") || has(text, "on host a")) << text;
  EXPECT_EQ(folder.points().machine, one.workplace.name());
  EXPECT_TRUE(warning_of_hosts(one, folder.points())
                  .starts_with("hosts are unlike: c takes 3 times as long as a for 8 samples; "))
      << warning_of_hosts(one, folder.points());
  EXPECT_EQ(measured(), "") << "it is among the points";
  one.workers = {1, 3};
  EXPECT_EQ(warning_of_hosts(one, folder.points()), "");
}

// One worker or several: `convoy run` binds each to a core where there are as many as workers.
TEST_F(PlanWorkplace, WorkersHereHaveTheCoresOfTheirPlace) {
  std::string all;
  for (const int workers : {1, 2}) {
    const Place place{.cores = {usable_cores().front()}, .workers = workers};
    const TrialFolders folders(scratch.path());
    Trial trial(planned.timed(8), folders.fresh(), place, "");
    while (trial.metrics().updates().size() < 3 && trial.poll()) wait_a_little();
    all += workers == 1 ? "8 on 1\n" : "8 -n 2 on 1\n";
    EXPECT_EQ(test::slurp(planned.recipe.name + ".cores"), all);
  }
}

// What `convoy train` has left in a folder, and recipes and pages, are the user's.
TEST_F(PlanWorkplace, AFolderThatIsNoPlansIsLeftAsItIs) {
  const std::string mine = scratch.path("mine");
  for (const char* file : {"recipe.toml", "runs/1234-abcdef/metrics.jsonl", "report.html"}) {
    make_folders(std::filesystem::path(mine + "/" + file).parent_path().string());
    test::spill(mine + "/" + file, "mine");
  }
  for (const bool resume : {false, true}) {
    for (const char* points : {"", "{\"x\": 1}\n{\"x\"", "{\"kind\": \"plan\"}"}) {
      if (*points != '\0') test::spill(mine + "/points.jsonl", points);
      const std::string said =
          test::message_of<UsageError>([&] { PlanFolder(mine, planned, resume); });
      EXPECT_NE(said.find(mine + " has something in it, and is not the folder of a plan"),
                std::string::npos)
          << said;
      if (*points != '\0') EXPECT_EQ(read_text_file(mine + "/points.jsonl"), points);
      std::filesystem::remove(mine + "/points.jsonl");
    }
  }
  EXPECT_EQ(test::entries(mine), 3u);
  EXPECT_EQ(read_text_file(mine + "/recipe.toml"), "mine");
}

// One of before, whose files have no marks, and whose trainings were in `runs`.
TEST_F(PlanWorkplace, AFolderOfBeforeGoesOn) {
  const std::string old = scratch.path("old");
  PlanFolder(old, planned, false)
      .add({.batch = 8, .learning_rate = 0.1, .seed = 1, .updates = 9, .reached = {}}, {});
  make_folders(old + "/runs/1234-abcdef");
  test::spill(old + "/report.html", "<!DOCTYPE html>\n<html lang=\"en\">\n");
  EXPECT_EQ(PlanFolder(old, planned, true).points().runs.size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(old + "/runs/1234-abcdef"));
  // Killed in its first line.
  const std::string begun = scratch.path("begun");
  make_folders(begun);
  for (const char* text : {"", "{\"finger", "{\"fingerprint\":\"fa"}) {
    test::spill(begun + "/points.jsonl", text);
    EXPECT_EQ(PlanFolder(begun, planned, true).points().runs.size(), 0u) << text;
  }
  // Where nothing was measured, nothing is left, so that another plan can begin.
  const std::string none = scratch.path("none");
  { const PlanFolder folder(none, planned, false); }
  EXPECT_EQ(test::entries(none), 0u);
}

// Recipes had the keys of all optimizers once, and so another fingerprint.
TEST_F(PlanWorkplace, AFolderOfAnEarlierVersionIsSaidToBeOne) {
  const std::string old = scratch.path("old");
  PlanFolder(old, planned, false)
      .add({.batch = 8, .learning_rate = 0.1, .seed = 1, .updates = 9, .reached = {}}, {});
  planned.fingerprint = "of today";
  const std::string mine = train::print_recipe(planned.recipe, false);
  const auto put = [](std::string text, const std::string& before, const std::string& now) {
    const std::size_t at = text.find(before);
    EXPECT_NE(at, std::string::npos) << before << " in " << text;
    return at == std::string::npos ? text : text.replace(at, before.size(), now);
  };
  const auto said = [&](const std::string& theirs) {
    test::spill(old + "/recipe.toml", theirs);
    return test::message_of<UsageError>([&] { PlanFolder(old, planned, true); });
  };
  const std::string earlier = put(mine, "[optimizer]\n", "[optimizer]\namsgrad = false\n");
  EXPECT_EQ(said(earlier), "the points in " + old +
                               " are of an earlier version of Convoy, whose recipes had other keys "
                               "(optimizer.amsgrad), so that nothing says whether they are of the "
                               "same data; name another --folder");
  // What no fingerprint goes by is no difference.
  EXPECT_EQ(said(put(earlier, "seed = 1\n", "seed = 2\n")), said(earlier));
  const std::string other =
      said(put(earlier, "precision = \"float32\"", "precision = \"float64\""));
  EXPECT_TRUE(has(other, " are of another recipe: ")) << other;
  EXPECT_TRUE(has(other, "precision is \"float32\", there it is \"float64\"")) << other;
  EXPECT_EQ(said(mine),
            "the points in " + old + " are of another recipe or other data; name another --folder");
  EXPECT_EQ(read_text_file(old + "/recipe.toml"), mine) << "as it was";
}

}  // namespace
}  // namespace convoy::cli
