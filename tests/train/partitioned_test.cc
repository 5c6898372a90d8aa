// Ranks that share a network train what one process does.
#include "convoy/model/local_image.h"
#include "convoy/model/partition.h"
#include "convoy/train/partition_rules.h"
#include "convoy/train/rehearsal.h"
#include "tests/train/partitioned_fixture.h"
#include "tests/train/read_timeline.h"

namespace convoy::train {
namespace {

struct Network {
  std::string name;
  std::vector<std::string> overrides;
};
const std::vector<Network> kNetworks{
    {"plain", {"model.options.dropout=0.4"}},
    {"branched", {"model.name=branched"}},
    {"local",
     {"model.name=local-image", "model.options.maps=[3,2]", "model.options.strides=[1,1]",
      "model.options.pools=[2,1]", "model.options.pool_strides=[1,1]", "model.options.filter=3",
      "model.options.norm=3"}},
    {"speech", {"model.name=speech-dnn", "model.options.hidden=13", "model.options.depth=2"}}};

// How layers are divided.
const std::vector<Network> kDivisions{{"rows", {}},
                                      {"waiting", {"partitioned.overlap=false"}},
                                      {"tiles", {"partitioned.images=tiles"}}};

TEST_F(PartitionedTest, EveryNetworkTrainsAsInOneProcess) {
  for (const Network& network : kNetworks) {
    const RunResult serial = train_on(1, net("serial-" + network.name, network.overrides));
    for (const GridOf& grid : grids()) {
      for (const Network& division : kDivisions) {
        const std::string name = network.name + "-" + grid.name() + "-" + division.name;
        const RunResult result =
            train_on(grid.ranks(), partitioned(name, grid, network.overrides + division.overrides));
        expect_equal(serial, result, name);
      }
    }
  }
}

// Statistics are those of all samples of a batch, of which each rank has positions.
TEST_F(PartitionedTest, BatchNormIsOverTheWholeBatch) {
  const Overrides how{"model.name=branched", "model.options.norm=true", "data.drop_last=true"};
  const RunResult serial = train_on(1, net("serial", how));
  for (const GridOf& grid : grids()) {
    const Overrides all =
        grid.replicas > 1 ? Overrides{"partitioned.batch_norm=synchronized"} : Overrides{};
    for (const Network& division : kDivisions) {
      const std::string name = grid.name() + "-" + division.name;
      expect_equal(serial,
                   train_on(grid.ranks(), partitioned(name, grid, how + all + division.overrides)),
                   name);
    }
  }
}

// With sync, and divided; evaluations are of the scores alone.
TEST_F(PartitionedTest, AuxiliaryClassifiersTrainAsInOneProcess) {
  const Overrides how{"model.name=auxiliary"};
  const RunResult serial = train_on(1, net("serial", how));
  expect_equal(serial, train_on(ranks(), net("sync", how)), "sync");
  for (const GridOf& grid : grids())
    expect_equal(serial, train_on(grid.ranks(), partitioned(grid.name(), grid, how)), grid.name());
  EXPECT_NE(refusal(net("hybrid", how + Overrides{"strategy=hybrid",
                                                  "grid.partitions=" + std::to_string(ranks())}))
                .find("the network 'Auxiliary' has auxiliary classifiers, which hybrid doesn't "
                      "train: take another strategy, or train it without them "
                      "(model.options.auxiliary = false)"),
            std::string::npos);
}

TEST_F(PartitionedTest, FiftyUpdatesAreThoseOfOneProcess) {
  const Overrides how{"training.epochs=0", "training.steps=50"};
  for (const Network& network : kNetworks) {
    const RunResult serial = train_on(1, net("serial-" + network.name, network.overrides + how));
    for (const GridOf& grid : grids()) {
      const std::string name = network.name + "-" + grid.name();
      // Where sigma and c of a contrast normalization are close, which one is larger decides: a
      // rounding error is then amplified, also by ranks that share nothing but gradients.
      expect_equal(serial, train_on(grid.ranks(), partitioned(name, grid, network.overrides + how)),
                   name, network.name == "local" ? 1e-7 : 1e-9);
    }
  }
}

TEST_F(PartitionedTest, HoweverLayersAreDivided) {
  const Overrides drop{"model.options.dropout=0.4"};
  const RunResult serial = train_on(1, net("serial", drop));
  for (const GridOf& grid : grids()) {
    std::string parts = "1";
    for (int p = 1; p < grid.partitions; ++p) parts += p % 2 == 1 ? ",0" : ",3";
    int number = 0;
    for (const std::string& rules : std::vector<std::string>{
             R"([{layers=["a.*"], how="units"}])", R"([{layers=["b.conv"], how="whole"}])",
             R"([{layers=["a.conv", "b.conv", "a.pool"], how="rows", parts=[)" + parts + "]}]",
             R"([{layers=["c.fc"], how="units", parts=[)" + parts + "]}]",
             R"([{layers=["c.fc", "d.fc"], how="whole"}])",
             R"([{layers=["a.conv"], how="units", parts=[)" + parts + "]}]"}) {
      const std::string name = grid.name() + "-" + std::to_string(number++);
      expect_equal(serial,
                   train_on(grid.ranks(),
                            partitioned(name, grid, drop + Overrides{"placement.layers=" + rules})),
                   name + " " + rules);
    }
  }
}

// Of concatenations, shortcuts and batch norm by units some ranks need nothing, and of parts with
// nothing in them some ranks have no batch norm.
TEST_F(PartitionedTest, HoweverBranchesAreDivided) {
  const Overrides how{"model.name=branched", "model.options.norm=true", "data.drop_last=true"};
  const RunResult serial = train_on(1, net("serial", how));
  for (const GridOf& grid : grids()) {
    if (grid.replicas > 1) continue;
    std::string parts = "1";
    for (int p = 1; p < grid.partitions; ++p) parts += ",0";
    int number = 0;
    for (
        const std::string& rules : std::vector<std::string>{
            R"([{layers=["block.cat", "block.sub"], how="units"}])",
            R"([{layers=["stem.conv"], how="units", parts=[)" + parts + "]}]",
            R"([{layers=["block.*"], how="units"}])",
            R"([{layers=["stem.conv"], how="units"}, {layers=["stem.conv_bn"], how="rows"}])",
            R"([{layers=["block.conv1"], how="units"}, {layers=["block.conv1_bn"], how="rows"}])"}) {
      const std::string name = grid.name() + "-" + std::to_string(number++);
      expect_equal(serial,
                   train_on(grid.ranks(),
                            partitioned(name, grid, how + Overrides{"placement.layers=" + rules})),
                   name + " " + rules);
    }
  }
}

TEST_F(PartitionedTest, HoweverGradientsTravel) {
  const RunResult serial = train_on(1, net("serial"));
  for (const GridOf& grid : grids()) {
    for (const char* how :
         {"partitioned.reproducible=true", "partitioned.allreduce=ring", "partitioned.bucket=256B",
          "partitioned.wire=bfloat16", "precision=float32", "precision=bfloat16"}) {
      const std::string name = grid.name() + how;
      const RunResult result = train_on(grid.ranks(), partitioned(name, grid, {how}));
      const bool rounded = std::string(how).ends_with("bfloat16");
      const bool narrow = std::string(how).starts_with("precision");
      if (!rounded && !narrow) expect_equal(serial, result, name);
      if (!first()) continue;
      if (narrow) {
        // Six updates of momentum from the same weights: what is left of float32's 1e-7, and of
        // bfloat16's 0.004 of each activation.
        EXPECT_NEAR(result.loss, serial.loss, (rounded ? 0.05 : 1e-4) * serial.loss) << name;
      } else if (rounded) {
        EXPECT_LT(relative_difference(serial.checkpoint, result.checkpoint), 0.05) << name;
      }
    }
  }
}

// What ranks count of their messages is what the plan derives, to the byte.
TEST_F(PartitionedTest, SendsWhatThePlanSays) {
  const model::Blueprint network = model::local_image(
      {.image = {1, 6, 6}, .classes = 8, .filter = 3, .norm = 3, .stages = {{3, 1, 2, 1}}});
  const std::int64_t batch = 12 * ranks();
  const Recipe r = partitioned(
      "bytes", {1, ranks()},
      {"model.name=local-image", "model.options.maps=[3]", "model.options.strides=[1]",
       "model.options.pools=[2]", "model.options.pool_strides=[1]", "model.options.filter=3",
       "model.options.norm=3", "training.batch=" + std::to_string(batch), "data.drop_last=true"});
  Rehearsal rehearsal(test_world(), registry_, r);
  const auto sent = [&] {
    std::map<std::string, double> bytes;
    for (const auto& kind : rehearsal.strategy().communicated().exchanged)
      bytes[kind.name] = static_cast<double>(kind.sent);
    return bytes;
  };
  const auto before = sent();
  rehearsal.make_updates(1);
  auto after = sent();
  for (auto& [name, bytes] : after) bytes -= before.at(name);
  const model::PartitionPlan plan =
      plan_partition(network, network.inputs, {.partitions = ranks()});
  std::map<std::string, double> expected{{"inputs", 0}, {"activations", 0}, {"gradients", 0}};
  for (const model::PartitionTraffic& part : traffic_of(plan)) {
    const double bytes = part.values * static_cast<double>(batch) * 8;
    if (part.output) continue;  // the loss is divided
    const bool input = plan.values[part.value].input;
    if (part.from == test_world().rank()) expected[input ? "inputs" : "activations"] += bytes;
    if (part.to == test_world().rank() && plan.values[part.value].trained)
      expected["gradients"] += bytes;
  }
  // Labels go with the inputs, to all.
  expected["inputs"] += 12.0 * (ranks() - 1) * 8;
  for (const auto& [name, bytes] : expected) EXPECT_EQ(after.at(name), bytes) << name;
  EXPECT_EQ(after.at("scores"), 0);
  EXPECT_EQ(expected["gradients"] > 0, ranks() > 1);
}

// However a recipe divides its network, by hand as well, ranks hold and send what the plan of that
// recipe says.
TEST_F(PartitionedTest, IsWhatThePlanOfTheRecipeSays) {
  const auto me = static_cast<std::size_t>(test_world().rank());
  const std::int64_t batch = 12 * ranks();
  const TaskFacts facts;
  std::string parts = "2";
  for (int p = 1; p < ranks(); ++p) parts += ",1";
  int number = 0;
  for (const std::string& how : std::vector<std::string>{
           "partitioned.images=tiles", R"(placement.layers=[{layers=["a.*"], how="units"}])",
           R"(placement.layers=[{layers=["a.conv", "b.conv"], how="rows", parts=[)" + parts + "]}]",
           R"(placement.layers=[{layers=["c.fc"], how="whole"}])",
           R"(placement.layers=[{layers=["d.fc"], how="units", parts=[)" + parts + "]}]",
           "partitioned.balance=parameters"}) {
    SCOPED_TRACE(how);
    const Recipe r = partitioned("planned" + std::to_string(number++), {1, ranks()},
                                 {how, "training.batch=" + std::to_string(batch)});
    const model::Blueprint network = plain_network(
        {.classes = 8, .image = {1, 6, 6}, .options = r.model.options, .facts = facts, .seed = 1});
    const model::PartitionPlan plan =
        plan_partition(network, network.inputs, partition_rules(r, network, network.inputs));
    Rehearsal rehearsal(test_world(), registry_, r);
    std::int64_t parameters = 0;
    for (const auto& parameter : rehearsal.strategy().module().parameters())
      parameters += parameter.numel();
    EXPECT_EQ(parameters, loads_of(network, plan)[me].parameters);
    const auto sent = [&] {
      std::map<std::string, double> bytes;
      for (const auto& kind : rehearsal.strategy().communicated().exchanged)
        bytes[kind.name] = static_cast<double>(kind.sent);
      return bytes;
    };
    const auto before = sent();
    rehearsal.make_updates(1);
    const auto after = sent();
    std::map<std::string, double> expected{{"inputs", 0}, {"activations", 0}, {"gradients", 0}};
    for (const model::PartitionTraffic& part : traffic_of(plan)) {
      if (part.output) continue;  // the loss is divided
      const double bytes = part.values * static_cast<double>(batch) * 8;
      const model::PartitionedValue& value = plan.values[part.value];
      if (part.from == test_world().rank())
        expected[value.input ? "inputs" : "activations"] += bytes;
      if (part.to == test_world().rank() && value.trained) expected["gradients"] += bytes;
    }
    expected["inputs"] += 12.0 * (ranks() - 1) * 8;  // labels, to all
    for (const auto& [name, bytes] : expected)
      EXPECT_EQ(after.at(name) - before.at(name), bytes) << name;
  }
}

TEST_F(PartitionedTest, WhatIsWrongIsSaid) {
  const auto said = [this](const Overrides& how) {
    Overrides all{"strategy=partitioned", "grid.partitions=" + std::to_string(ranks())};
    return test::message_of<UsageError>([&] { train(net("wrong", all + how)); });
  };
  const auto expect = [&](const Overrides& how, const std::string& text) {
    const std::string message = said(how);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  expect({"partitioned.images=columns"},
         "partitioned.images is 'columns'; it can be rows or tiles");
  expect({"partitioned.tile_rows=1"}, "it is for tiles");
  expect({"training.accumulate=2"}, "with partitioned it can be 1");
  expect({R"(placement.layers=[{layers=["a.conv"], how="row"}])"}, "did you mean rows?");
  expect({R"(placement.layers=[{layers=["c.fc"], how="rows"}])"}, "layer 'c.fc'");
  std::string parts = "1";
  for (int p = 1; p < ranks(); ++p) parts += ",1";
  expect({R"(placement.layers=[{layers=["c.fc"], parts=[)" + parts + "]}]"},
         "are for how = \"rows\" or \"units\"");
  if (ranks() > 1) {
    const Overrides two{"grid.partitions=1", "partitioned.batch_norm=synchronized",
                        "model.name=branched", "model.options.norm=true"};
    expect(two, "every rank needs a sample in every micro-batch");
  }
}

TEST_F(PartitionedTest, HoweverItIsTrained) {
  int number = 0;
  for (const Overrides& how :
       {Overrides{"training.clip_norm=0.05"},
        Overrides{"optimizer.name=adam", "optimizer.momentum=0"},
        Overrides{"data.on_bad=skip", "data.train.bad_every=7"}, Overrides{"training.batch=11"},
        Overrides{"task.name=one_vs_all"}, Overrides{"task.options.label_smoothing=0.1"},
        Overrides{R"(optimizer.groups=[{parameters=["d.*"], lr_scale=0.5, weight_decay=0.01}])"},
        Overrides{"evaluation.batch=7"}, Overrides{"model.channels_last=true"},
        // Replicas without a sample, from the first update on.
        Overrides{"training.batch=1", "training.epochs=0", "training.steps=5"},
        Overrides{"training.batch=2", "training.epochs=0", "training.steps=5"},
        Overrides{"optimizer.name=sgd_velocity"}}) {
    const std::string tag = std::to_string(number++);
    const RunResult serial = train_on(1, net("serial" + tag, how));
    for (const GridOf& grid : grids()) {
      const std::string name = grid.name() + "-" + tag;
      expect_equal(serial, train_on(grid.ranks(), partitioned(name, grid, how)),
                   name + how.front());
    }
  }
}

TEST_F(PartitionedTest, NormsAreThoseOfWholeParameters) {
  int number = 0;
  for (const Overrides& how : layerwise_rules()) {
    const std::string tag = std::to_string(number++);
    const Overrides branched = how + Overrides{"model.name=branched"};
    const RunResult serial = train_on(1, net("serial" + tag, how)),
                    other = train_on(1, net("other" + tag, branched));
    for (const GridOf& grid : grids()) {
      const std::string name = grid.name() + "-" + tag;
      expect_equal(serial, train_on(grid.ranks(), partitioned(name, grid, how)),
                   name + how.front());
      // One of the ranks has all of a layer, and the others nothing of it.
      std::string parts = "1";
      for (int i = 1; i < grid.partitions; ++i) parts += ",0";
      const Overrides some =
          branched + Overrides{R"(placement.layers=[{layers=["stem.conv"], how="units", parts=[)" +
                               parts + "]}]"};
      expect_equal(other, train_on(grid.ranks(), partitioned("some" + name, grid, some)),
                   "some" + name + how.front());
    }
  }
}

TEST_F(PartitionedTest, GradientsThatAreNoNumbersAreNotApplied) {
  testing_data::add_steep_task(registry_);
  const Recipe serial = net("serial");
  train_on(1, serial);
  for (const GridOf& grid : grids()) {
    const Recipe r = partitioned(grid.name(), grid);
    train_on(grid.ranks(), r);
    expect_norms(serial, r);
    expect_diverged(partitioned(
        grid.name() + "-steep", grid,
        {"task.name=steep", "task.options.at=4", "checkpoint.every_steps=1", "checkpoint.keep=2"}));
  }
}

// Those of parameters that all partitions have, and those of divided ones, which replicas have
// together.
TEST_F(PartitionedTest, ATimelineHasAllSums) {
  for (const GridOf& grid : grids()) {
    TrainerOptions options{.progress = false};
    options.timeline = folder_ + "/" + grid.name() + ".json";
    const Recipe r = partitioned(grid.name(), grid, {"training.epochs=0", "training.steps=3"});
    Trainer(test_world(), registry_, r, options).run();
    all().barrier();
    for (auto& rank : test::read_timeline(read_text_file(options.timeline), ranks())) {
      int shared = 0, divided = 0;
      for (const auto& [row, spans] : rank) {
        if (row.starts_with("bucket "))
          (row.find(" of parts") == std::string::npos ? shared : divided) +=
              test::count_spans(spans, "reduce bucket ");
      }
      EXPECT_EQ(shared >= 3, ranks() > 1) << grid.name();
      EXPECT_EQ(divided >= 3, grid.replicas > 1 && grid.partitions > 1) << grid.name();
    }
    all().barrier();
  }
}

// Parameters are listed in the order of their layers, whether partitions divide them or share them.
TEST_F(PartitionedTest, TheLastParameterIsTheSameForEveryDivision) {
  testing_data::add_steep_task(registry_);
  for (const GridOf& grid : grids()) {
    int number = 0;
    for (const char* rules :
         {R"([{layers=["d.fc"], how="units"}])", R"([{layers=["d.fc"], how="whole"}])",
          R"([{layers=["a.conv"], how="units"}])"}) {
      const std::string said = refusal<Failure>(partitioned(
          grid.name() + "-" + std::to_string(number++), grid,
          {"task.name=steep", "task.options.at=1", std::string("placement.layers=") + rules}));
      EXPECT_NE(said.find(", by the gradient of 'd.fc.bias'"), std::string::npos)
          << rules << ": " << said;
    }
  }
}

}  // namespace
}  // namespace convoy::train
