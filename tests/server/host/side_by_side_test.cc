// Parts of one piece of work, and what becomes of it when one of them fails.
#include "server/host/side_by_side.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "server/host/lane.h"

namespace convoy::server::host {
namespace {

using namespace std::chrono_literals;

class SideBySide : public ::testing::Test {
 protected:
  static constexpr std::size_t kCount = 4;

  void SetUp() override {
    for (std::size_t i = 1; i < kCount; ++i) {
      lanes_.push_back(std::make_unique<Lane>([](const std::string&) {}));
    }
  }
  void run(const std::function<void(std::size_t)>& part) {
    run_side_by_side(kCount, part, [this](std::size_t i, std::function<void()> task) {
      if (i >= refused_) throw std::bad_alloc();
      lanes_.at(i - 1)->add(std::move(task));
    });
  }

  std::size_t refused_ = kCount;  // tasks from this one on can't be added
  std::vector<std::unique_ptr<Lane>> lanes_;
};

TEST_F(SideBySide, EachPartIsDoneOnce) {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> calls[kCount] = {};
    run([&](std::size_t i) { ++calls[i]; });
    for (const auto& each : calls) EXPECT_EQ(each, 1);
  }
}

// Or an update that was made in part would count as made.
TEST_F(SideBySide, WhatAPartThrowsReachesTheCaller) {
  for (std::size_t bad = 0; bad < kCount; ++bad) {
    std::atomic<std::size_t> ended = 0;
    const auto part = [&](std::size_t i) {
      if (i == bad) throw std::bad_alloc();
      std::this_thread::sleep_for(5ms);
      ++ended;
    };
    EXPECT_THROW(run(part), std::bad_alloc) << bad;
    EXPECT_EQ(ended, kCount - 1);
  }
  std::atomic<int> calls = 0;
  run([&](std::size_t) { ++calls; });  // the next one is well
  EXPECT_EQ(calls, static_cast<int>(kCount));
}

// To a command that would say that it is malformed and has changed nothing.
TEST_F(SideBySide, NoPartsErrorIsAUsers) {
  for (const std::size_t bad : {0, 2}) {
    try {
      run([&](std::size_t i) {
        if (i == bad) throw UsageError("wrong");
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const UsageError&) {
      ADD_FAILURE() << "a UsageError";
    } catch (const Failure& error) {
      EXPECT_STREQ(error.what(), "wrong");
    }
  }
}

TEST_F(SideBySide, OnlyTheFirstOfSeveralIsThrown) {
  // All but part 0 are in one lane: each of them begins when what the one before it has thrown is
  // noted.
  std::promise<void> first_is_noted;
  const auto part = [&](std::size_t i) {
    if (i == 0) first_is_noted.get_future().wait();
    if (i == 1) throw std::bad_alloc();
    if (i == 2) first_is_noted.set_value();
    throw Failure("later");
  };
  EXPECT_THROW(run_side_by_side(kCount, part,
                                [this](std::size_t, std::function<void()> task) {
                                  lanes_.front()->add(std::move(task));
                                }),
               std::bad_alloc);
}

// Tasks refer to what the caller has on its stack.
TEST_F(SideBySide, WhatWasBegunEndsBeforeTheCallDoes) {
  refused_ = 2;
  std::atomic<int> ended = 0;
  EXPECT_THROW(run([&](std::size_t) {
                 std::this_thread::sleep_for(100ms);
                 ++ended;
               }),
               std::bad_alloc);
  EXPECT_EQ(ended, 1);
  lanes_.clear();  // ends what is left, if anything is
}

}  // namespace
}  // namespace convoy::server::host
