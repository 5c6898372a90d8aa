#include "convoy/base/lines_file.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"

namespace convoy {
namespace {

TEST(LinesFile, KeepsWholeLinesAlone) {
  const test::Scratch scratch;
  const std::string path = scratch.path("lines");
  {
    LinesFile file(path);
    EXPECT_EQ(file.text(), "");
    file.append("one");
    file.append("two");
    EXPECT_EQ(test::message_of<UsageError>([&] { LinesFile second(path); }),
              path + " is in use by another process; one at a time can add to it");
  }
  test::spill(path, test::slurp(path) + "thr");
  LinesFile file(path);
  EXPECT_EQ(file.text(), "one\ntwo\n");
  file.append("three");
  EXPECT_EQ(test::slurp(path), "one\ntwo\nthree\n");
  file.clear();
  EXPECT_EQ(test::slurp(path), "");
  file.append("four");
  EXPECT_EQ(file.text(), "four\n");
}

TEST(LinesFile, WhatDoesNotFitLeavesNothing) {
  const test::Scratch scratch;
  LinesFile file(scratch.path("lines"));
  file.append("one");
  {
    const test::FileSizeLimit limit(6);
    EXPECT_NE(test::message_of<Failure>([&] {
                file.append("a long one");
              }).find("cannot write " + scratch.path("lines")),
              std::string::npos);
  }
  file.append("2");
  EXPECT_EQ(file.text(), "one\n2\n");
  EXPECT_THROW(LinesFile(scratch.path("none/lines")), Failure);
}

}  // namespace
}  // namespace convoy
