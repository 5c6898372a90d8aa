// The table that says which algorithm an allreduce uses.
#include "comm/collectives/allreduce/selection.h"

#include <gtest/gtest.h>

#include "comm/internals.h"
#include "convoy/base/error.h"
#include "convoy/comm/world.h"
#include "tests/comm/mistaken_worlds.h"

namespace convoy::comm {
namespace {

using enum AllreduceAlgorithm;

std::string complaint(const std::string& text) {
  try {
    const AllreduceSelection selection(text, "here");
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no complaint";
}

TEST(Selection, BuiltInRulesFitEverything) {
  const AllreduceSelection selection;
  EXPECT_EQ(selection.choose(0, 2, 1).algorithm, recursive_doubling);
  EXPECT_EQ(selection.choose(32 << 10, 2, 1).algorithm, recursive_doubling);
  EXPECT_EQ(selection.choose((32 << 10) + 1, 2, 1).algorithm, ring_rsag);
  EXPECT_EQ(selection.choose(std::size_t{1} << 40, 1000, 100).algorithm, ring_rsag);
}

TEST(Selection, WhatTheGroupCannotUseIsPassedOver) {
  const AllreduceSelection selection("..1MiB hierarchical k=2; ring", "here");
  EXPECT_EQ(selection.choose(5, 4, 2).algorithm, ring);
  EXPECT_EQ(selection.choose(5, 4, 2, {false, true}), (AllreduceChoice{hierarchical, 2}));
  EXPECT_EQ(AllreduceSelection().choose(5, 4, 1, {true, false}).algorithm, shared);
  EXPECT_EQ(AllreduceSelection().choose(1 << 20, 4, 2, {false, true}).algorithm, hierarchical);
}

TEST(Selection, TheFirstRuleThatFitsIsTaken) {
  const AllreduceSelection selection(
      "..4KiB naive; 64KiB..1MiB ranks=3..5 nodes=2.. multicolor k=3 segment=64KiB in-flight=8;"
      "1MiB.. ranks=8 ring segment=1MiB; 1MiB.. nodes=1 multicolor k=ranks;",
      "here");
  EXPECT_EQ(selection.choose(4 << 10, 2, 1).algorithm, naive);
  EXPECT_EQ(selection.choose(8 << 10, 2, 1).algorithm, recursive_doubling) << "built in";
  const AllreduceChoice multi{multicolor, 3, {64 << 10, 8}};
  EXPECT_EQ(selection.choose(64 << 10, 3, 2), multi);
  EXPECT_EQ(selection.choose(1 << 20, 5, 7), multi);
  EXPECT_NE(selection.choose(1 << 20, 6, 7), multi);
  EXPECT_NE(selection.choose(1 << 20, 4, 1), multi);
  EXPECT_EQ(selection.choose(1 << 20, 8, 1), (AllreduceChoice{ring, 0, {1 << 20, 4}}));
  EXPECT_EQ(selection.choose(2 << 20, 9, 1).colors_among(9), 9);
  EXPECT_EQ(selection.choose(2 << 20, 9, 2).algorithm, ring_rsag) << "built in";
}

TEST(Selection, CallsAreLeftToMpiWhereThatIsPossible) {
  const AllreduceSelection selection("..64KiB mpi; nodes=2.. mpi", "here");
  Abilities abilities;
  EXPECT_EQ(selection.choose(64 << 10, 2, 1, abilities).algorithm, ring_rsag);
  abilities.own_mpi = true;
  EXPECT_EQ(selection.choose(64 << 10, 2, 1, abilities).algorithm, mpi);
  EXPECT_EQ(selection.choose(1 << 20, 2, 2, abilities).algorithm, mpi);
  EXPECT_EQ(selection.choose(1 << 20, 2, 1, abilities).algorithm, ring_rsag);
  EXPECT_EQ(selection.rules()[0].text(), "..64KiB mpi");
}

TEST(Selection, TextIsReadBackAsTheSame) {
  for (const char* text :
       {"", "..32KiB recursive-doubling; 32KiB.. ring-rsag segment=256KiB",
        "5..5 naive; 1000..1025 ring; ranks=2 nodes=..3 multicolor k=2 segment=1025 in-flight=1",
        "multicolor k=ranks; 1GiB..2GiB ring-rsag in-flight=64", " ; ;; naive ; "}) {
    const AllreduceSelection selection(text, "here");
    const std::string written = selection.text();
    const AllreduceSelection again(written, "here");
    EXPECT_EQ(again.text().substr(0, written.size()), written);
    for (std::size_t i = 0; i < selection.rules().size(); ++i)
      EXPECT_EQ(again.rules()[i], selection.rules()[i]) << written;
  }
}

TEST(Selection, ComplaintsSayWhereAndWhatWouldBeRight) {
  const struct {
    const char* text;
    std::vector<const char*> parts;
  } cases[] = {
      {"naive; rnig-rsag", {"here: rule 2 'rnig-rsag'", "did you mean 'ring-rsag'"}},
      {"zzz", {"algorithms are naive, recursive-doubling, ring, ring-rsag, multicolor"}},
      {"..32KiB", {"rule 1 '..32KiB'", "there is no algorithm"}},
      {"..32KB8 naive", {"'32KB8' is not a size"}},
      {"2MiB..1MiB naive", {"ends before it begins"}},
      {"ranks=0 naive", {"'ranks=0'", "number from 1"}},
      {"ranks=two naive", {"'two'"}},
      {"nodes=3..2 naive", {"ends before it begins"}},
      {"naive k=3", {"'k=3' is no parameter of naive, which has none"}},
      {"ring k=3", {"no parameter of ring; it has segment, in-flight"}},
      {"multicolor colors=3", {"it has k, segment, in-flight"}},
      {"multicolor k", {"needs a value"}},
      {"multicolor k=0", {"'0' is not a number from 1 to 4096"}},
      {"multicolor k=4x", {"'4x'"}},
      {"ring segment=12", {"segments are 1 KiB to 1 GiB"}},
      {"ring segment=-1MiB", {"is not a size"}},
      {"ring in-flight=65", {"number from 1 to 64"}},
      {"ring 1MiB..", {"'1MiB..' is no parameter of ring"}},
  };
  for (const auto& c : cases) {
    const std::string message = complaint(c.text);
    for (const char* part : c.parts)
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' in: " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Selection, OfRanksThatDifferIsNamed) {
  EXPECT_EQ(difference_of_selections({"naive", "naive", " naive;"}, "here"), "");
  EXPECT_EQ(difference_of_selections({"1MiB.. ring", "1024KiB.. ring"}, "here"), "");
  EXPECT_EQ(difference_of_selections({"naive", "naive", "naive; ring segment=1MiB"}, "here"),
            "ranks have different selections of allreduce (here): rule 2 is missing on rank 0 and "
            "'ring segment=1MiB' on rank 2");
  EXPECT_EQ(difference_of_selections({"multicolor k=4", "multicolor k=2"}, "here"),
            "ranks have different selections of allreduce (here): rule 1 is 'multicolor k=4' on "
            "rank 0 and 'multicolor k=2' on rank 1");
}

// Sums of three ranks go along a chain: the ends send the data once, the middle twice. Calls are
// compared in shared memory.
void expect_chain(const Communicator& comm) {
  std::vector<float> data(100, 1);
  const Traffic before = comm.traffic();
  comm.allreduce(buffer_of(data), ReduceOp::sum);
  EXPECT_EQ(data, std::vector<float>(100, 3));
  EXPECT_EQ(comm.traffic().bytes_sent - before.bytes_sent, comm.rank() == 1 ? 800u : 400u);
}

TEST(Selection, OfAWorldIsFollowed) {
  WorldOptions options;
  options.allreduce = "400.. multicolor k=1";
  World::run_threads(
      3,
      [](World& world) {
        const Communicator comm = world.communicator().duplicate();
        expect_chain(comm);
        EXPECT_EQ(CommunicatorInternals::locality(comm).map.nodes(), 1);
      },
      options);
}

TEST(Selection, OfACommunicatorIsFollowed) {
  World::run_threads(3, [](World& world) {
    const Communicator chain = world.communicator().with_allreduce("multicolor k=1");
    for (const Communicator& all : {chain, chain.duplicate(), chain.split(0)}) expect_chain(all);
    EXPECT_THROW((void)world.communicator().with_allreduce("multicolr"), UsageError);
    EXPECT_THROW((void)world.communicator().with_allreduce(world.rank() == 1 ? "ring" : "naive"),
                 UsageError);
    chain.barrier();  // still usable
  });
}

// Ranks that are threads have no MPI under them: the rule is passed over.
TEST(Selection, RanksWithoutMpiPassOverIt) {
  World::run_threads(3, [](World& world) {
    const Communicator own = world.communicator().with_allreduce("mpi; multicolor k=1");
    expect_chain(own);
    std::vector<float> data(8, 1);
    EXPECT_THROW((void)CommunicatorInternals::start_allreduce(own, buffer_of(data), ReduceOp::sum,
                                                              {AllreduceAlgorithm::mpi}),
                 UsageError);
    own.barrier();
  });
}

TEST(Selection, AWorldThatCannotReadItOrDiffersIsAMistakeOnEveryRank) {
  for (const bool differ : {false, true}) {
    std::vector<WorldOptions> options(3);
    for (WorldOptions& each : options) each.allreduce = differ ? "ring" : "rign";
    if (differ) options[1].allreduce = "naive";
    for (const std::string& message : mistakes_of(options)) {
      const char* part = differ ? "'ring' on rank 0 and 'naive' on rank 1" : "did you mean 'ring'";
      EXPECT_NE(message.find(part), std::string::npos) << message;
      EXPECT_NE(message.find("WorldOptions::allreduce"), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace convoy::comm
