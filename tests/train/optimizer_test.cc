// Optimizers of one's own: groups, schedule, and state that goes on.
#include "convoy/data/loader.h"
#include "convoy/train/trained.h"
#include "tests/train/halves.h"
#include "tests/train/signum.h"
#include "tests/train/trainer_fixture.h"

namespace convoy::train {
namespace {

class OptimizerTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    testing_data::add_optimizers(registry_);
    testing_data::add_halves(registry_);
  }
  static Overrides signum(Overrides more = {}) {
    more.insert(more.begin(),
                {"optimizer.name=signum", "optimizer.momentum=0.8", "optimizer.lr=0.01",
                 "optimizer.weight_decay=0.1",
                 R"(optimizer.groups=[{parameters=["fc.*"], lr_scale=0.5, weight_decay=0.0}])"});
    return more;
  }
  std::string said(const Overrides& overrides) {
    return test::message_of<UsageError>([&] { train(recipe("wrong", overrides), 1); });
  }
};

// The reference: a plain loop over the same batches.
Tensors plain_loop(const Registry& registry, const Recipe& r) {
  torch::manual_seed(static_cast<std::uint64_t>(r.seed));
  testing_data::Small net(3, false, 0);
  net.to(torch::kDouble);
  const auto data = registry.open_data(r.data.reader, r.data.train);
  const auto task = registry.make_task(r);
  task->look(*data, nullptr);
  const Compute compute(r);
  data::LoaderOptions options;
  options.batch = static_cast<std::size_t>(r.training.batch);
  options.seed = static_cast<std::uint64_t>(r.seed);
  options.layout = compute.layout();
  data::Loader loader(data, data::TransformOptions(), options);
  const Schedule schedule(r.schedule, r.optimizer.lr, r.training,
                          static_cast<double>(loader.batches_per_epoch()));
  Tensors weights, means;
  for (const auto& p : net.named_parameters()) {
    weights[p.key()] = p.value();
    means[p.key()] = torch::zeros_like(p.value());
  }
  Moment now{.samples = data->size()};
  for (now.epoch = 0; now.epoch < 3; ++now.epoch) {
    now.consumed = 0;
    while (const data::Batch* batch = loader.next()) {
      const TaskBatch rows = task->tensors(*batch, {0, batch->size()}, compute);
      net.zero_grad();
      task->loss({net.forward(task->inputs(rows).at(0))}, rows).backward();
      const double lr = schedule.at(now) * (1 + 1.0 / static_cast<double>(now.step + 1));
      const torch::NoGradGuard no_grad;
      for (auto& [name, w] : weights) {
        const bool fc = name.starts_with("fc.");
        const double rate = fc ? lr * 0.5 : lr;
        means[name] = means[name] * 0.8 + w.grad() * (1 - 0.8);
        w.copy_(w * (1 - rate * (fc ? 0 : 0.1)) - rate * means[name].sign());
      }
      ++now.step;
      now.consumed += batch->size();
    }
  }
  return weights;
}

TEST_F(OptimizerTest, TrainsAsAPlainLoopWould) {
  const Recipe r = recipe("plain", signum());
  EXPECT_EQ(r.optimizer.options.number("momentum"), 0.8);
  const State state = state_of(train(r).checkpoint);
  for (const auto& [name, weights] : plain_loop(registry_, r)) {
    EXPECT_LT((state.model.at(name) - weights).abs().max().item<double>(), 1e-9) << name;
    EXPECT_TRUE(state.optimizer.contains("mean/" + name));
  }
  EXPECT_EQ(state.optimizer.size(), 4u);
  for (const auto& [name, weights] : state.model) {
    if (weights.is_floating_point() && !name.starts_with("bn.running"))
      EXPECT_EQ(state.numbers.at("optimizer.step/" + name), 18) << name;
  }
}

TEST_F(OptimizerTest, GoesOnAsIfNothingHadHappened) {
  const std::string whole = train(recipe("whole", signum())).checkpoint;
  const Recipe parts = recipe("parts", signum());
  EXPECT_TRUE(train(parts, 5).stopped);
  const RunResult end = train(parts, 0, "latest");
  EXPECT_EQ(end.steps, 18);
  EXPECT_TRUE(same_tensors(whole, end.checkpoint));
  // Another rule can do nothing with its state.
  const std::string sgd = refusal(recipe("parts"), "latest");
  EXPECT_NE(sgd.find("optimizer.name is \"sgd\""), std::string::npos) << sgd;
}

// What all ranks have written, one alone reads; what it writes, all read.
TEST_F(OptimizerTest, GoesOnOnOtherNumbersOfRanks) {
  const std::string whole = train(recipe("whole", signum())).checkpoint;
  const Recipe parts = recipe("parts", signum());
  EXPECT_TRUE(train(parts, 5).stopped);
  all().barrier();
  if (first()) {
    comm::World::run_threads(1, [&](comm::World& alone) {
      TrainerOptions options;
      options.resume = "latest";
      options.progress = false;
      int asked = 0;
      options.should_stop = [&] { return ++asked >= 4; };
      EXPECT_TRUE(Trainer(alone, registry_, parts, options).run().stopped);
    });
  }
  all().barrier();
  EXPECT_LT(largest_difference(whole, train(parts, 0, "latest").checkpoint), 1e-9);
}

// Each partition has some of the parameters, and of the groups.
TEST_F(OptimizerTest, OnPartitions) {
  if (test_world().size() % 2 != 0) GTEST_SKIP() << "needs an even number of ranks";
  const std::string whole = train(recipe("whole", signum({"model.name=chain"}))).checkpoint;
  const Overrides halves{"model.name=chain", "strategy=halves", "grid.partitions=2"};
  const Recipe parts = recipe("parts", signum(halves));
  const RunResult end = train(parts);
  EXPECT_LT(largest_difference(whole, end.checkpoint), 1e-9);
  EXPECT_EQ(state_of(end.checkpoint).optimizer.size(), 4u);
  const std::string unused =
      refusal(recipe("unused", {"model.name=chain", "strategy=halves", "grid.partitions=2",
                                "optimizer.groups=[{parameters=[\"bn.*\"]}]"}));
  EXPECT_NE(unused.find("optimizer.groups[0] fits no parameter"), std::string::npos) << unused;
}

// A checkpoint can be used where the optimizer that it was trained with can't be made any more.
TEST_F(OptimizerTest, NobodyMakesThatOfAnEarlierRecipe) {
  bool gone = false;
  registry_.add_optimizer("gone",
                          [&gone](const OptimizerRequest& request) {
                            if (gone && request.options.text("table") == "a")
                              throw UsageError("there is no table a");
                            return std::make_unique<testing_data::Signum>(0, request.weight_decay);
                          },
                          {{"table", std::string("a"), "of rates"}});
  const Overrides by{"optimizer.name=gone", "optimizer.momentum=0"};
  EXPECT_TRUE(train(recipe("gone", by), 5).stopped);
  gone = true;
  const TrainedSource source =
      find_trained(registry_, recipe("gone").output.folder, Which::newest, {});
  EXPECT_NO_THROW(Trained(test_world(), registry_, source));
  Overrides other = by;
  other.push_back("optimizer.table=b");
  EXPECT_EQ(train(recipe("gone", other), 0, "latest").steps, 18);
}

// Nor the rule of one, and nobody asks its keys.
TEST_F(OptimizerTest, NobodyMakesTheRuleOfAnEarlierRecipe) {
  bool gone = false;
  OptimizerKind kind;
  kind.name = "gone";
  kind.options = {{.key = "table",
                   .initial = std::string("a"),
                   .doc = "of rates",
                   .resume = ResumeRule::free,
                   .check = [&gone](const Value& value) -> std::string {
                     return gone && std::get<std::string>(value) == "a" ? "is no more" : "";
                   }}};
  kind.rule = [&gone](const OptimizerRequest& request) -> optim::Rule {
    if (gone && request.options.text("table") == "a") throw UsageError("there is no table a");
    return optim::Sgd{.weight_decay = request.weight_decay};
  };
  registry_.add_optimizer(kind);
  const Overrides by{"optimizer.name=gone", "optimizer.momentum=0"};
  EXPECT_TRUE(train(recipe("gone_rule", by), 5).stopped);
  const std::string folder = recipe("gone_rule", by).output.folder;
  gone = true;
  EXPECT_NE(said(by).find("optimizer.table is no more"), std::string::npos);
  const TrainedSource source = find_trained(registry_, folder, Which::newest, {});
  EXPECT_NO_THROW(Trained(test_world(), registry_, source));
  Overrides other = by;
  other.push_back("optimizer.table=b");
  EXPECT_EQ(train(recipe("gone_rule", other), 0, "latest").steps, 18);
}

TEST_F(OptimizerTest, MistakesInARecipeAreSaidTogether) {
  const std::string all_of =
      said({"optimizer.name=signum", "optimizer.momentum=1.5", "optimizer.nesterov=true",
            "optimizer.cautius=true", "optimizer.lr=-1", "training.batch=0"});
  for (const char* part : {"optimizer.momentum has to be from 0 to 1",
                           "nesterov is for sgd, not signum", "did you mean optimizer.cautious?",
                           "optimizer.lr can't be negative", "training.batch is missing"}) {
    EXPECT_NE(all_of.find(part), std::string::npos) << part << " in " << all_of;
  }
  const auto expect = [&](const Overrides& overrides, const std::string& part) {
    const std::string text = said(overrides);
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  };
  expect({"optimizer.name=signun"},
         "there is no optimizer 'signun'; there are sgd, sgd_velocity, adam, adamw, adagrad, lars, "
         "lamb, signum, odd; did you mean signum?");
  expect({"optimizer.cautious=true"},
         "--set optimizer.cautious is for signum, not sgd, whose own keys are momentum, dampening "
         "and nesterov");
  EXPECT_NO_THROW(recipe("right", {"optimizer.cautious=false"})) << "as a complete recipe has it";
  expect({"optimizer.name=signum", "optimizer.dampening=0.1"},
         "optimizer.dampening is for sgd, not signum, whose own keys are momentum and cautious");
  expect({"optimizer.name=signum", "optimizer.momentum=\"much\""}, "has to be a number");
  const auto odd = [](const char* how) {
    return Overrides{"optimizer.momentum=0", "optimizer.name=odd",
                     std::string("optimizer.how=") + how};
  };
  expect(odd("nothing"), "the optimizer 'odd' of a plugin gave nothing");
  expect(odd("throws"), "the optimizer 'odd' of a plugin can't be made: no such device");
  expect(odd("twice"), "has two slots 'a'");
  expect(odd("slash"), "names a slot 'a/b'");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/wrong"));
  expect(odd("shape"), "gave its slot 'a' of fc.weight another shape");
  const std::string type =
      test::message_of<UsageError>([&] { train(recipe("type", odd("type")), 1); });
  EXPECT_NE(type.find("gave its slot 'a' of fc.weight another shape, type or device"),
            std::string::npos)
      << type;
}

TEST_F(OptimizerTest, NamesAreGivenOnce) {
  const auto add = [&](const std::string& name, std::vector<Option> options) {
    return test::message_of<UsageError>([&] {
      registry_.add_optimizer(
          name, [](const OptimizerRequest&) { return nullptr; }, std::move(options));
    });
  };
  EXPECT_EQ(add("signum", {}), "there is an optimizer 'signum' already; give yours another name");
  EXPECT_EQ(add("adamw", {}), "there is an optimizer 'adamw' already; give yours another name");
  EXPECT_NE(add("third", {{"lr", 0.1, ""}}).find("can't have a key 'lr' of its own"),
            std::string::npos);
  EXPECT_EQ(add("third", {{"x", 0.1, ""}, {"x", 0.2, ""}}),
            "the optimizer 'third' has two keys 'x'");
  OptimizerKind neither;
  neither.name = "third";
  EXPECT_NE(test::message_of<UsageError>([&] {
              registry_.add_optimizer(neither);
            }).find("the optimizer 'third' has neither"),
            std::string::npos);
}

// One of Convoy's rules with other keys: it is made, and trains, as the built-in one.
TEST_F(OptimizerTest, OneOfConvoysRules) {
  OptimizerKind heavy;
  heavy.name = "heavy";
  heavy.doc = "sgd with momentum";
  heavy.options = {{.key = "mass",
                    .initial = 0.5,
                    .doc = "its momentum",
                    .resume = ResumeRule::free,
                    .check = [](const Value& value) -> std::string {
                      return std::get<double>(value) < 1 ? "" : "has to be below 1";
                    }},
                   {.key = "table",
                    .initial = std::string("a"),
                    .doc = "unused",
                    .resume = ResumeRule::fixed,
                    .why = "its rates are of that table"}};
  heavy.rule = [](const OptimizerRequest& r) -> optim::Rule {
    return optim::Sgd{.momentum = r.options.number("mass"), .weight_decay = r.weight_decay};
  };
  heavy.on_servers = true;
  registry_.add_optimizer(heavy);
  const Overrides by{"optimizer.name=heavy", "optimizer.momentum=0", "optimizer.mass=0.9"};
  const auto with = [&by](const std::string& one) {
    Overrides all = by;
    all.push_back(one);
    return all;
  };
  EXPECT_TRUE(same_tensors(train(recipe("sgd")).checkpoint, train(recipe("heavy", by)).checkpoint));
  EXPECT_NE(said(with("optimizer.mass=1")).find("--set optimizer.mass has to be below 1"),
            std::string::npos);
  EXPECT_NE(said(with("optimizer.mass=nan")).find("optimizer.mass is nan; it has to be a finite"),
            std::string::npos);
  EXPECT_NE(said(with("optimizer.msas=0.5")).find("did you mean optimizer.mass?"),
            std::string::npos);
  EXPECT_NE(said(with("optimizer.lr=-1")).find("optimizer: sgd: lr is -1"), std::string::npos);
  // A resumed run takes another value as the key says.
  const Recipe parts = recipe("parts", by);
  EXPECT_TRUE(train(parts, 5).stopped);
  EXPECT_NE(refusal(recipe("parts", with("optimizer.table=b")), "latest")
                .find("optimizer.table is \"b\", in the checkpoint it is \"a\"; its rates are of "
                      "that table"),
            std::string::npos);
  EXPECT_EQ(train(recipe("parts", with("optimizer.mass=0.8")), 0, "latest").steps, 18);
}

// A complete recipe reads back to the same.
TEST_F(OptimizerTest, ItsKeysArePrinted) {
  const Recipe r = recipe("printed", signum({"optimizer.cautious=true"}));
  const std::string text = print_recipe(r, true);
  EXPECT_NE(text.find("momentum = 0.8"), std::string::npos) << text;
  EXPECT_NE(text.find("# of the running mean"), std::string::npos) << text;
  const Recipe again = parse_recipe({text, "again.toml", "/"}, {}, registry_.vocabulary());
  EXPECT_EQ(print_recipe(again, true), text);
  EXPECT_TRUE(again.optimizer.options.flag("cautious"));
}

}  // namespace
}  // namespace convoy::train
