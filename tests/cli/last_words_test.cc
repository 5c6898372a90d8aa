// What ranks say of errors that end them.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "cli/training/ranks.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

using Words = std::array<std::string, 4>;

// Of four ranks, whose `work` throws.
template <class Work>
Words words_of_ranks(const Work& work) {
  Words words;
  try {
    comm::World::run_threads(4, [&](comm::World& world) {
      try {
        work(world);
      } catch (const std::exception& error) {
        std::string& mine = words[static_cast<std::size_t>(world.rank())];
        mine = last_words(world, error);
        if (!mine.empty()) world.give_up(mine);
      }
    });
    ADD_FAILURE() << "the world goes on";
  } catch (const Failure&) {
  }
  return words;
}

TEST(LastWords, OfWhatAllRanksMeetAreSaidOnce) {
  EXPECT_EQ(words_of_ranks([](comm::World&) { throw UsageError("there is no r.toml"); }),
            (Words{"there is no r.toml"}));
  EXPECT_EQ(words_of_ranks([](comm::World&) { throw Failure("the loss is nan"); }),
            (Words{"the loss is nan"}));
}

TEST(LastWords, OfWhatOneRankMeetsAreItsOwnAndReachTheOthers) {
  Words heard;
  const Words words = words_of_ranks([&](comm::World& world) {
    if (world.rank() == 2) throw UsageError("9.jpg: not a JPEG");
    try {
      world.communicator().barrier();
    } catch (const Failure& error) {
      heard[static_cast<std::size_t>(world.rank())] = error.what();
      throw;
    }
  });
  const std::string said = "rank 2 on host " + host_name() + ": 9.jpg: not a JPEG";
  EXPECT_EQ(words, (Words{"", "", said, ""}));
  for (const std::size_t rank : {0, 1, 3})
    EXPECT_NE(heard[rank].find(said), std::string::npos) << heard[rank];
}

TEST(LastWords, OfAProcessAloneAreTheErrorAlone) {
  const auto work = [] {
    in_world({}, "train", [](comm::World&) -> int { throw Failure("the disk is full"); });
  };
  EXPECT_EXIT(work(), testing::ExitedWithCode(1), "^convoy train: the disk is full\n$");
}

}  // namespace
}  // namespace convoy::cli
