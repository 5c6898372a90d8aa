// Machine descriptions: models, tables, files.
#include "convoy/plan/machine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "convoy/base/error.h"
#include "tests/base/scratch.h"

namespace {

using namespace convoy::plan;
using convoy::UsageError;
using convoy::test::message_of;

Machine simple() {
  Machine machine;
  machine.seconds_per_sample = 1.25e-4;
  machine.knee_samples = 12.5;
  return machine;
}

TEST(Machine, GammaHasAKneeAndAShareOfTheProcessor) {
  Machine machine = simple();
  EXPECT_DOUBLE_EQ(compute_seconds(machine, 1), 1.25e-4 * 12.5);
  EXPECT_DOUBLE_EQ(compute_seconds(machine, 12.5), 1.25e-4 * 12.5);
  EXPECT_DOUBLE_EQ(compute_seconds(machine, 13), 1.25e-4 * 13);
  machine.processor_share = 0.25;
  EXPECT_DOUBLE_EQ(compute_seconds(machine, 13), 1.25e-4 * 13 * 4);
}

TEST(Machine, TheWorkerWithMostSamplesSetsThePace) {
  const Machine machine = simple();
  EXPECT_DOUBLE_EQ(seconds_per_update(machine, 60, 4), 1.25e-4 * 15);
  EXPECT_DOUBLE_EQ(seconds_per_update(machine, 61, 4), 1.25e-4 * 16);
  EXPECT_DOUBLE_EQ(seconds_per_update(machine, 64, 4), 1.25e-4 * 16);
}

TEST(Machine, DeltaComesFromItselfOrFromBandwidth) {
  Communication c;
  c.kind = CommunicationKind::ring;
  c.gradient_bytes = 4e6;
  c.bandwidth_bytes_per_s = 1e8;
  c.latency_s = 1e-3;
  EXPECT_DOUBLE_EQ(delta_seconds(c), 0.04);
  EXPECT_DOUBLE_EQ(communication_seconds(c, 4), 0.04 * 1.5 + 6e-3);
  EXPECT_EQ(communication_seconds(c, 1), 0);
  c.delta_s = 0.04;
  EXPECT_THROW((void)communication_seconds(c, 4), UsageError) << "which of the two?";
  c.bandwidth_bytes_per_s = 0;
  EXPECT_NO_THROW((void)communication_seconds(c, 4));
  c.delta_s = 0;
  EXPECT_THROW((void)communication_seconds(c, 4), UsageError) << "bytes without bandwidth";
}

TEST(Machine, TablesAreInterpolatedAndNotLeft) {
  Communication c;
  c.kind = CommunicationKind::table;
  c.table = {{2, 1.0}, {8, 3.0}};
  EXPECT_EQ(communication_seconds(c, 1), 0);
  EXPECT_EQ(communication_seconds(c, 2), 1);
  EXPECT_DOUBLE_EQ(communication_seconds(c, 4), 2) << "halfway over log P";
  EXPECT_EQ(communication_seconds(c, 8), 3);
  EXPECT_EQ(message_of<UsageError>([&] { (void)communication_seconds(c, 9); }),
            "communication between 9 workers was not measured, only from 2 to 8; measure it, or "
            "give a model");
  c.table[0].workers = 3;
  EXPECT_THROW((void)communication_seconds(c, 2), UsageError);
  c.table = {{3, 1.0}, {3, 3.0}};
  EXPECT_THROW((void)communication_seconds(c, 3), UsageError);

  Machine machine = simple();
  machine.table = {{2, 1.0}, {4, 2.0}};
  EXPECT_EQ(compute_seconds(machine, 1), 1);
  EXPECT_EQ(compute_seconds(machine, 3), 1.5);
  EXPECT_EQ(compute_seconds(machine, 4), 2);
  // Beyond the table each sample takes gamma, where that is known.
  machine.seconds_per_sample = 0.25;
  EXPECT_DOUBLE_EQ(compute_seconds(machine, 8), 3);
  EXPECT_EQ(most_samples(machine), std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(of_equation_4(machine).table.empty());
  machine.seconds_per_sample = 0;
  EXPECT_THROW((void)compute_seconds(machine, 4.001), UsageError);
  EXPECT_EQ(of_equation_4(machine), machine) << "there is nothing else";
  EXPECT_EQ(most_samples(machine), 4);
  machine.memory_samples = 3;
  EXPECT_EQ(most_samples(machine), 3);
  machine = simple();
  machine.memory_samples = 256;
  EXPECT_EQ(most_samples(machine), 256);
}

TEST(Machine, BadValuesAreNamed) {
  const double inf = std::numeric_limits<double>::infinity();
  Machine machine = simple();
  EXPECT_NO_THROW(validate(machine));
  for (const double bad : {0.0, -1.0, inf, std::nan("")}) {
    machine = simple();
    machine.seconds_per_sample = bad;
    EXPECT_THROW(validate(machine), UsageError);
    machine = simple();
    machine.knee_samples = bad;
    EXPECT_THROW(validate(machine), UsageError);
    machine = simple();
    machine.processor_share = bad;
    EXPECT_THROW(validate(machine), UsageError);
    machine = simple();
    machine.table = {{1, bad}};
    EXPECT_THROW(validate(machine), UsageError);
    machine = simple();
    machine.communication.kind = CommunicationKind::ring;
    if (bad != 0) machine.communication.delta_s = bad;
    if (bad != 0) {
      EXPECT_THROW(validate(machine), UsageError);
    }
  }
  machine = simple();
  machine.memory_samples = -1;
  EXPECT_EQ(message_of<UsageError>([&] { validate(machine); }),
            "compute.memory_samples is -1; it must be an integer of 0 or more");
  machine = simple();
  machine.processor_share = 1.01;
  EXPECT_EQ(message_of<UsageError>([&] { validate(machine); }),
            "compute.processor_share is 1.01; it must be at most 1");
  EXPECT_EQ(message_of<UsageError>([] { (void)communication_kind("rng"); }),
            "'rng' is no kind of communication; did you mean 'ring'? There are none, constant, "
            "server, ring, tree, table and unknown");
}

TEST(Machine, FilesReadBackAsTheSameBits) {
  Machine machine = simple();
  machine.seconds_per_sample = 0.1 + 0.2;
  machine.source = "measured \"here\"\n\x01";
  machine.processor_share = 1. / 3;
  machine.communication.kind = CommunicationKind::server;
  machine.communication.gradient_bytes = 1725604;
  machine.communication.bandwidth_bytes_per_s = 1.25e8;
  machine.communication.latency_s = 1e-300;
  machine.model = "lenet";
  machine.memory_samples = 256;
  EXPECT_EQ(machine_of_toml(to_toml(machine)), machine);
  machine.communication = {};
  machine.communication.kind = CommunicationKind::table;
  machine.communication.table = {{2, 0.1}, {1000000, 3}};
  machine.table = {{1, 0.25}, {7, 1e-9}};
  EXPECT_EQ(machine_of_toml(to_toml(machine)), machine);
}

TEST(Machine, FilesSayWhatIsWrongAndWhere) {
  const auto message = [](const std::string& text) {
    return message_of<UsageError>([&] { (void)machine_of_toml(text, "dir/node.toml"); });
  };
  const std::string good = "[compute]\nseconds_per_sample = 1e-3\n";
  EXPECT_EQ(message(good), "");
  EXPECT_EQ(message(good + "[placement]\nmodel = 'x'\n"), "") << "of another planner";
  EXPECT_EQ(message(good + "[communications]\nkind = 'none'\n"),
            "node.toml:3: unknown key 'communications'; did you mean 'communication'?");
  EXPECT_EQ(message(good + "[sandblaster]\nportions = 7\n"),
            "node.toml:3: unknown key 'sandblaster'");
  EXPECT_EQ(message(good + "kneesamples = 3\n"),
            "node.toml:3: unknown key 'compute.kneesamples'; did you mean 'knee_samples'?");
  EXPECT_EQ(message(good + "knee_samples = '3'\n"),
            "node.toml:3: compute.knee_samples must be a number");
  EXPECT_EQ(message(good + "knee_samples = nan\n"),
            "node.toml: compute.knee_samples is nan; it must be a number above 0");
  EXPECT_EQ(message("source = 'x'\n"), "node.toml: the table [compute] is missing");
  EXPECT_EQ(message(good + "table = [{samples = 1.5, seconds = 1}]\n"),
            "node.toml:3: compute.table[].samples must be an integer");
  EXPECT_EQ(message(good + "table = [{seconds = 1, sample = 2}]\n"),
            "node.toml:3: unknown key 'compute.table[].sample'; did you mean 'samples'?");
  EXPECT_EQ(message(good + "[communication]\ndelta_s = 1\n"),
            "node.toml: communication.kind is missing");
  EXPECT_EQ(message(good + "[communication]\nkind = 'rings'\n").substr(0, 60),
            "node.toml:4: communication.kind: 'rings' is no kind of commu");
  EXPECT_EQ(
      message(good + "[communication]\nkind = 'ring'\ndelta_s = 1\nbandwidth_bytes_per_s = 1\n"
                     "gradient_bytes = 1\n")
          .substr(0, 31),
      "node.toml: communication has bo");
  for (const char* kind : {"constant", "server", "ring", "tree"}) {
    EXPECT_EQ(message(good + "[communication]\nlatency_s = 1e-5\nkind = '" + kind + "'\n"),
              "node.toml:5: communication.kind is '" + std::string(kind) +
                  "', and nothing says how long that takes; give delta_s, or gradient_bytes and "
                  "bandwidth_bytes_per_s");
  }
  EXPECT_EQ(message("[compute\n").substr(0, 12), "node.toml:1:");
}

TEST(Machine, CommunicationThatNothingIsKnownOfIsNotFree) {
  const std::string alone = "[compute]\nseconds_per_sample = 1e-3\n";
  const Machine machine = machine_of_toml(alone);
  EXPECT_EQ(machine.communication.kind, CommunicationKind::unknown);
  EXPECT_EQ(machine_of_toml(to_toml(machine)), machine);
  EXPECT_EQ(seconds_per_update(machine, 8, 1), 8e-3);
  EXPECT_EQ(message_of<UsageError>([&] { (void)seconds_per_update(machine, 8, 2); }),
            "nothing is known of communication between 2 workers; measure it, or describe it in "
            "[communication] (kind = \"none\" is communication that takes no time)");
  const Machine free = machine_of_toml(alone + "[communication]\nkind = 'none'\n");
  EXPECT_EQ(seconds_per_update(free, 8, 2), 4e-3);
  // Of a ring whose delta is said to be 0 only the latency counts.
  const Machine quick =
      machine_of_toml(alone + "[communication]\nkind = 'ring'\ndelta_s = 0.0\nlatency_s = 1e-3\n");
  EXPECT_DOUBLE_EQ(seconds_per_update(quick, 8, 2), 6e-3);
  EXPECT_EQ(machine_of_toml(to_toml(quick)), quick);
}

}  // namespace
