#include "server/coordinator/store_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "tests/base/patience.h"

namespace convoy::server::coordinator {
namespace {

// Holds up the first change until it is let go.
class FakeStore final : public StateStore {
 public:
  std::string where() const override { return "here"; }
  std::uint64_t begin() override { return 1; }
  std::optional<Value> read(const std::string&) override { return std::nullopt; }
  std::map<std::string, Value> list(const std::string&) override { return {}; }
  Changed change(std::uint64_t, std::span<const Write> writes, Survives) override {
    if (sizes.empty() && go.valid()) go.wait();
    std::size_t size = 0;
    for (const Write& write : writes) size += write.value ? write.value->size() : 0;
    sizes.push_back(size);
    return {};
  }
  Changed settle() override {
    return fenced ? Changed{Changed::Kind::fenced, 0, "term 2 has begun"} : Changed{};
  }

  std::shared_future<void> go;
  std::vector<std::size_t> sizes;
  std::atomic<bool> fenced = false;
};

TEST(StoreThread, LearnsThatItsTermIsOverWithNothingToWrite) {
  FakeStore store;
  std::promise<Changed> ended;
  StoreThread thread(
      store, 1, [](std::uint64_t) {}, [&](const Changed& why) { ended.set_value(why); },
      convoy::Log("test"));
  store.fenced = true;
  auto end = ended.get_future();
  ASSERT_EQ(end.wait_for(convoy::test::patience()), std::future_status::ready);
  EXPECT_EQ(end.get().kind, Changed::Kind::fenced);
}

TEST(StoreThread, JoinsAndSplitsByBytes) {
  FakeStore store;
  std::promise<void> go;
  store.go = go.get_future().share();
  std::promise<void> all;
  StoreThread thread(
      store, 1,
      [&](std::uint64_t ticket) {
        if (ticket == 8) all.set_value();
      },
      [](const Changed&) {}, convoy::Log("test"));
  constexpr std::size_t kKilo = 1024;
  const auto write = [&](std::uint64_t ticket, std::vector<std::size_t> sizes) {
    StoreWrites writes{ticket, {}, Survives::process};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      writes.writes.push_back(
          {std::to_string(ticket) + "/" + std::to_string(i), std::nullopt, Bytes(sizes[i])});
    }
    thread.write(std::move(writes));
  };
  write(1, {1});
  for (std::uint64_t ticket = 2; ticket <= 7; ++ticket) write(ticket, {200 * kKilo});
  write(8, {1000 * kKilo, 500 * kKilo});
  go.set_value();
  all.get_future().get();
  std::size_t sum = 0;
  for (const std::size_t size : store.sizes) {
    EXPECT_LE(size, 1280 * kKilo);
    sum += size;
  }
  EXPECT_EQ(sum, 1 + 2700 * kKilo);
  EXPECT_GE(store.sizes.size(), 5u);
}

}  // namespace
}  // namespace convoy::server::coordinator
