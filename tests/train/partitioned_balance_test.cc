// Networks that ranks share, in parts that cost the same.
#include <algorithm>
#include <numeric>

#include "tests/train/partitioned_fixture.h"

namespace convoy::train {
namespace {

class BalanceTest : public PartitionedTest {
 protected:
  static std::string list(const std::vector<double>& numbers) {
    std::string text;
    for (const double number : numbers)
      text += (text.empty() ? "[" : ", ") + std::to_string(number);
    return text + "]";
  }
  // The last one is slow.
  static Overrides speeds(int partitions) {
    std::vector<double> all(static_cast<std::size_t>(partitions), 1);
    all.back() = 0.4;
    return {"partitioned.speeds=" + list(all)};
  }
  // What the run's folder and its checkpoint have noted; the same in both.
  std::vector<std::string> noted(const Recipe& r, const RunResult& result) {
    const auto parts = [this](const RecipeText& text) {
      return parse_recipe(text, {}, registry_.vocabulary(), Files::may_be_missing)
          .strategy_options.texts("parts");
    };
    const auto own = parts(read_recipe_file(r.output.folder + "/recipe.toml"));
    EXPECT_EQ(parts({open_checkpoint(result.checkpoint).recipe, "checkpoint", "/"}), own);
    return own;
  }
};

TEST_F(BalanceTest, TrainsAsOneProcess) {
  struct Network {
    std::string name;
    Overrides overrides;
    std::vector<std::string> balances;
  };
  for (const Network& network :
       {Network{"plain", {"model.options.dropout=0.4"}, {"uneven", "time"}},
        Network{"branched",
                {"model.name=branched", "model.options.norm=true", "data.drop_last=true",
                 "partitioned.batch_norm=synchronized"},
                {"macs", "time"}},
        Network{"local",
                {"model.name=local-image", "model.options.maps=[3]", "model.options.strides=[1]",
                 "model.options.pools=[2]", "model.options.pool_strides=[1]",
                 "model.options.filter=3", "model.options.norm=3"},
                {"parameters", "uneven"}}}) {
    const RunResult serial = train_on(1, net("serial-" + network.name, network.overrides));
    for (const GridOf& grid : grids()) {
      for (const std::string& balance : network.balances) {
        const std::string name = network.name + "-" + grid.name() + "-" + balance;
        const bool uneven = balance == "uneven";
        Overrides how = network.overrides;
        how.push_back("partitioned.balance=" + (uneven ? "macs" : balance));
        if (uneven) how = how + speeds(grid.partitions);
        const Recipe r = partitioned(name, grid, how);
        const RunResult result = train_on(grid.ranks(), r);
        expect_equal(serial, result, name);
        if (!first()) continue;
        const std::vector<std::string> parts = noted(r, result);
        EXPECT_FALSE(parts.empty());
        if (grid.partitions == 2 && network.name == "plain" && uneven)
          EXPECT_NE(parts.front(), "a.conv: 3 3");
      }
    }
  }
}

TEST_F(BalanceTest, AResumedRunKeepsItsParts) {
  if (ranks() < 2) return;
  const int all_ranks = ranks();
  const GridOf all{1, all_ranks}, fewer{1, all_ranks - 1};
  const RunResult serial = train_on(1, net("serial"));
  for (const char* balance : {"macs", "time"}) {
    SCOPED_TRACE(balance);
    const Overrides how{std::string("partitioned.balance=") + balance, "checkpoint.keep=9"};
    const std::string name = std::string("run-") + balance;
    const Recipe r = partitioned(name, all, how);
    const RunResult begun = train_on(all_ranks, r, 2);
    const std::vector<std::string> chosen = first() ? noted(r, begun) : std::vector<std::string>();
    if (first()) EXPECT_FALSE(chosen.empty());
    const RunResult resumed = train_on(all_ranks, r, 1, "latest");
    if (first()) EXPECT_EQ(noted(r, resumed), chosen);
    // On other partitions they are chosen anew, and then once more.
    const Recipe other = partitioned(name, fewer, how);
    const RunResult smaller = train_on(fewer.ranks(), other, 1, "latest");
    if (first()) {
      const auto anew = noted(other, smaller);
      ASSERT_EQ(anew.size(), chosen.size());
      EXPECT_NE(anew, chosen);
    }
    expect_equal(serial, train_on(all_ranks, r, 0, "latest"), name);
  }
}

// What is noted is used as long as it fits, and not after another balance was asked for.
TEST_F(BalanceTest, WhatIsNotedIsUsedWhereItFits) {
  if (ranks() != 2) return;
  const GridOf grid{1, 2};
  const std::string parts =
      R"(partitioned.parts=["a.conv: 5 1", "a.pool: 2 1", "b.conv: 1 2", "b.pool: 0 2", )"
      R"("c.fc: 3 8", "d.fc: 8 0"])";
  const RunResult serial = train_on(1, net("serial"));
  const auto run = [&](const std::string& name, const Overrides& how, int stop = 0,
                       const std::string& resume = "") {
    const Recipe r = partitioned(name, grid, how);
    const RunResult result = train_on(2, r, stop, resume);
    if (stop == 0) expect_equal(serial, result, name);
    return first() ? noted(r, result) : std::vector<std::string>();
  };
  const auto given = run("given", {"partitioned.balance=time", parts}, 2);
  const auto macs = run("macs", {"partitioned.balance=macs"});
  // Of the checkpoint, by a recipe that says nothing of them.
  const auto kept = run("given", {"partitioned.balance=time"}, 1, "latest");
  // The run's own recipe, and another balance.
  const auto changed = run("given", {"partitioned.balance=macs", parts}, 0, "latest");
  const auto wrong =
      run("wrong", {"partitioned.balance=macs", R"(partitioned.parts=["a.conv: 6"])"});
  if (!first()) return;
  EXPECT_EQ(given.front(), "a.conv: 5 1");
  EXPECT_EQ(kept, given);
  EXPECT_EQ(changed, macs);
  EXPECT_EQ(wrong, macs);
}

TEST_F(BalanceTest, EvaluatesOnOtherPartitions) {
  const GridOf grid{1, ranks()};
  const RunResult result =
      train_on(ranks(), partitioned("run", grid, {"partitioned.balance=macs"}), 2);
  const Recipe r = partitioned("more", {1, 1}, {"partitioned.balance=macs"});
  if (first()) EXPECT_FALSE(result.checkpoint.empty());
  expect_equal(train_on(1, net("serial")), train_on(1, r), "one partition");
}

TEST_F(BalanceTest, SaysWhatIsWrong) {
  const std::string p = std::to_string(ranks());
  const auto expect = [&](const Overrides& how, const std::string& text) {
    const std::string message = test::message_of<UsageError>([&] {
      train(partitioned("wrong", {1, ranks()}, how));
    });
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  const auto with = [&](double last) {
    std::vector<double> all(static_cast<std::size_t>(ranks()), 1);
    all.back() = last;
    std::string text;
    for (const double one : all) text += (text.empty() ? "" : ",") + std::to_string(one);
    return "partitioned.speeds=[" + text + "]";
  };
  const std::string macs = "partitioned.balance=macs";
  expect({"partitioned.balance=mac"},
         "it can be even, parameters, macs or time; did you mean macs");
  expect({"partitioned.balance=fair"}, "partitioned.balance is 'fair'");
  expect({macs, "partitioned.speeds=[1,1,1,1,1,1,1]"},
         "partitioned.speeds has 7 numbers; it has to have one for each of the partitions: "
         "grid.partitions is " +
             p);
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL, 1e9})
    expect({macs, with(bad)}, "partitioned.speeds have to be numbers from");
  expect({with(0.5)}, "partitioned.balance = \"parameters\" or \"macs\"; it is even");
  expect({"partitioned.balance=time", with(0.5)}, "leave them out");
  expect({R"(partitioned.parts=["a.conv: 6"])"}, "leave them out (parts of your own are for");
  for (const char* parts : {"a.conv", "a.conv: 1 x", ": 6", "a.conv: -1 7", "a.conv:"})
    expect({macs, std::string("partitioned.parts=[\"") + parts + "\"]"}, "has to have a text");
  expect({macs, R"(partitioned.parts=["a.conv: 6", "a.conv: 6"])"}, "has to have a text");
  // Of a strategy that is not chosen only the keys are looked at.
  expect({"strategy=sync", "grid.partitions=1", "partitioned.balanc=macs"},
         "did you mean partitioned.balance");
  if (ranks() == 1) EXPECT_EQ(net("sync", {"partitioned.balance=macs"}).strategy, "sync");
}

}  // namespace
}  // namespace convoy::train
