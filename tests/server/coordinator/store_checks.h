// What every StateStore has to do.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/coordinator/configuration_keeper.h"
#include "server/coordinator/state_store.h"

namespace convoy::server::coordinator::test {

inline Bytes bytes(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}
inline std::string text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::string text(const Value& value) { return text(value.bytes); }
inline std::string text(const std::optional<Value>& value) {
  return value ? text(value->bytes) : "(nothing)";
}

// `open` opens the same store again and again, empty at first.
inline void check_store(const std::function<std::unique_ptr<StateStore>()>& open) {
  using WriteKind = Changed::Kind;
  constexpr auto kProcess = Survives::process;
  std::uint64_t first = 0;
  {
    const auto store = open();
    EXPECT_TRUE(store->list("").empty());
    first = store->begin();
    EXPECT_FALSE(store->read("a"));
    const Changed set = store->compare_and_set(first, "a", 0, bytes("one"), Survives::power);
    ASSERT_EQ(set.kind, WriteKind::done) << set.problem;
    EXPECT_GE(set.revision, 1u);
    EXPECT_EQ(text(store->read("a")), "one");
    EXPECT_EQ(store->read("a")->revision, set.revision);
    EXPECT_EQ(store->compare_and_set(first, "a", 0, bytes("two"), kProcess).kind,
              WriteKind::conflict);
    EXPECT_EQ(text(store->read("a")), "one");
    EXPECT_EQ(store->compare_and_set(first, "a", set.revision, bytes("two"), kProcess).kind,
              WriteKind::done);
    EXPECT_EQ(store->compare_and_set(first, "a", set.revision, bytes("three"), kProcess).kind,
              WriteKind::conflict);
    // All or nothing.
    const Write both[] = {{"b", 0, bytes(std::string("\0\xff binary", 9))}, {"c", 5, bytes("x")}};
    EXPECT_EQ(store->change(first, both, kProcess).kind, WriteKind::conflict);
    EXPECT_FALSE(store->read("b"));
    const Write fine[] = {{"b", 0, bytes(std::string("\0\xff binary", 9))},
                          {"dir/1", {}, bytes("")},
                          {"dir/2", {}, bytes("2")},
                          {"dir0", {}, bytes("behind")},
                          {"a", {}, std::nullopt}};
    EXPECT_EQ(store->change(first, fine, kProcess).kind, WriteKind::done);
    EXPECT_FALSE(store->read("a"));
    EXPECT_EQ(store->list("dir/").size(), 2u);
    EXPECT_EQ(text(store->list("dir/").at("dir/2")), "2");
    EXPECT_EQ(store->list("").size(), 4u);
    EXPECT_EQ(store->settle().kind, WriteKind::done);
    // Another one begins.
    const std::uint64_t second = store->begin();
    EXPECT_GT(second, first);
    const Changed late = store->compare_and_set(first, "b", 0, bytes("late"), kProcess);
    EXPECT_EQ(late.kind, WriteKind::fenced);
    EXPECT_NE(late.problem, "");
    const Write deletion{"b", {}, std::nullopt};
    EXPECT_EQ(store->change(first, std::span(&deletion, 1), kProcess).kind, WriteKind::fenced);
    EXPECT_EQ(text(store->read("b")), std::string("\0\xff binary", 9));
    EXPECT_EQ(store->compare_and_set(second, "d", 0, bytes("new"), kProcess).kind, WriteKind::done);
    first = second;
  }
  const auto again = open();
  EXPECT_EQ(text(again->read("d")), "new");
  EXPECT_EQ(again->list("").size(), 5u);
  EXPECT_GT(again->begin(), first);
  EXPECT_EQ(again->compare_and_set(first, "d", 0, bytes("late"), kProcess).kind, WriteKind::fenced);
}

inline void check_configurations(StateStore& store) {
  using replication::Configuration;
  const std::uint64_t term = store.begin();
  int ended = 0;
  const auto now = [](const std::function<void()>& what) { what(); };
  ConfigurationKeeper keeper(store, term, now, [&](const Changed&) { ++ended; });
  replication::ConfigurationStore::Answer answer;
  const auto take = [&](const auto& given) { answer = given; };
  keeper.read(3, take);
  EXPECT_TRUE(answer.reached);
  EXPECT_EQ(answer.newest, (Configuration{3, 0, {}, {}}));
  const Configuration one{3, 1, {1, 11}, {}}, two{3, 2, {1, 11}, {2, 22}}, three{3, 3, {2, 22}, {}};
  keeper.compare_and_set(one, take);
  EXPECT_TRUE(answer.reached);
  EXPECT_EQ(answer.newest, one);
  keeper.compare_and_set(three, take);
  EXPECT_EQ(answer.newest, one) << "not the next one";
  keeper.compare_and_set(two, take);
  EXPECT_EQ(answer.newest, two);
  keeper.compare_and_set({3, 2, {2, 22}, {}}, take);
  EXPECT_EQ(answer.newest, two) << "another one was there first";
  keeper.read(3, take);
  EXPECT_EQ(answer.newest, two);
  keeper.read(4, take);
  EXPECT_EQ(answer.newest.epoch, 0u);
  EXPECT_EQ(ended, 0);
  // Another coordinator's turn.
  ConfigurationKeeper next(store, store.begin(), now, [&](const Changed&) { ++ended; });
  keeper.compare_and_set(three, take);
  EXPECT_FALSE(answer.reached);
  EXPECT_EQ(ended, 1);
  next.compare_and_set(three, take);
  EXPECT_EQ(answer.newest, three);
}

}  // namespace convoy::server::coordinator::test
