#include "cli/launch/hosts.h"

#include <gtest/gtest.h>

#include <sstream>

#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

std::string read_list(const std::string& text, int ranks) {
  auto hosts = parse_hosts(text);
  complete_slots(hosts, ranks);
  return format_hosts(hosts);
}

TEST(Hosts, FillsInSlots) {
  EXPECT_EQ(read_list("a:2,b:3", 5), "a:2,b:3");
  EXPECT_EQ(read_list("a,b", 5), "a:3,b:2");
  EXPECT_EQ(read_list("a,b", 1), "a:1,b:1");
  EXPECT_EQ(read_list("a:4,b", 5), "a:4,b:1");
  EXPECT_EQ(total_slots(parse_hosts("a:4,b")), 5);
}

TEST(Hosts, FewRanksAreOnTheFirst) {
  const auto first = [](const std::string& text, int ranks) {
    return format_hosts(first_slots(parse_hosts(text), ranks));
  };
  EXPECT_EQ(first("a,b,c", 1), "a:1");
  EXPECT_EQ(first("a,b,c", 3), "a:1,b:1,c:1");
  EXPECT_EQ(first("a:2,b:4,c:2", 5), "a:2,b:3");
  EXPECT_EQ(first("a:2,b", 9), "a:2,b:1");
}

TEST(Hosts, ReadsFilesOfBothKinds) {
  std::istringstream file(
      "# cluster\nnode-1 slots=2 max_slots=4\n\nnode-2:3  # the big one\nnode_3\n");
  auto hosts = parse_hostfile(file, "hosts");
  complete_slots(hosts, 6);
  EXPECT_EQ(format_hosts(hosts), "node-1:2,node-2:3,node_3:1");
}

TEST(Hosts, RefusesWhatIsNoHost) {
  for (const char* text : {"", ",", "a,", "a:", "a:0", "a:-1", "a:x", "a:2:3", "-x:2", "a b",
                           "a:99999999999", "a;b"}) {
    EXPECT_THROW(parse_hosts(text), UsageError) << text;
  }
  std::istringstream unknown("a slots=2 speed=3\n");
  EXPECT_THROW(parse_hostfile(unknown, "f"), UsageError);
  std::istringstream empty("# nothing\n");
  EXPECT_THROW(parse_hostfile(empty, "f"), UsageError);
}

}  // namespace
}  // namespace convoy::cli
