// How a rank asks for short turns beside other programs.
#include "comm/world/turns.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

namespace convoy::comm {
namespace {

// What the kernel says of the calling thread: 48 bytes, of which the policy is the second number
// of 32 bits and the length of a turn, in ns, the fourth of 64.
struct Turns {
  std::uint32_t policy = 0;
  std::uint64_t length = 0;  // 0: Linux before 6.12
};

Turns turns() {
  std::array<std::uint64_t, 6> attributes{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0), 0);
  return {static_cast<std::uint32_t>(attributes[0] >> 32), attributes[3]};
}

// Threads take over what the one has that starts them, so that no other test is touched.
template <typename Body>
void in_a_thread(const Body& body) {
  std::thread(body).join();
}

TEST(Turns, AreShortAndTheSameForThreadsStartedLater) {
  in_a_thread([] {
    const Turns before = turns();
    const std::uint64_t shortest = before.length == 0 ? 0 : 100'000;
    ask_for_short_turns();
    EXPECT_EQ(turns().policy, before.policy);
    EXPECT_EQ(turns().length, shortest);
    in_a_thread([=] { EXPECT_EQ(turns().length, shortest); });
    ask_for_short_turns();
    EXPECT_EQ(turns().length, shortest);
  });
}

TEST(Turns, AThreadWithAPolicyKeepsIt) {
  in_a_thread([] {
    const sched_param none{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    const Turns before = turns();
    ask_for_short_turns();
    EXPECT_EQ(turns().policy, static_cast<std::uint32_t>(SCHED_BATCH));
    EXPECT_EQ(turns().length, before.length);
  });
}

}  // namespace
}  // namespace convoy::comm
