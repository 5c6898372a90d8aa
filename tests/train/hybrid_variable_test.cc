// Partitioned layers that are updated after each pass, against one process that does so.
#include "convoy/data/epoch_order.h"
#include "convoy/model/randomness.h"
#include "convoy/model/stage.h"
#include "tests/train/hybrid_fixture.h"
#include "tests/train/read_timeline.h"
#include "train/strategies/hybrid/rounds.h"

namespace convoy::train {
namespace {

constexpr std::size_t kSamples = 61, kBatch = 12;
constexpr double kRate = 0.1;

// What one process makes of batches whose passes are those of a grid.
class Reference {
 public:
  Reference(const GridOf& grid, const Scheme& scheme, double clip, double trunk_rate = kRate,
            double head_rate = kRate)
      : grid_(grid), scheme_(scheme), clip_(clip), data_(kSamples), net_(blueprint(), 1) {
    net_.to(torch::kDouble);
    for (const auto& item : net_.named_parameters())
      (item.key().starts_with("c.") ? head_ : trunk_).push_back(item.value());
    trunk_optimizer_.emplace(trunk_, torch::optim::SGDOptions(trunk_rate).momentum(0.9));
    head_optimizer_.emplace(head_, torch::optim::SGDOptions(head_rate).momentum(0.9));
  }

  void train(int epochs) {
    std::uint64_t step = 0;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const data::EpochOrder order(kSamples, 1, static_cast<std::uint64_t>(epoch));
      for (std::size_t begin = 0; begin < kSamples; begin += kBatch)
        update(order.samples({begin, std::min(begin + kBatch, kSamples)}), step++);
    }
  }
  torch::OrderedDict<std::string, torch::Tensor> parameters() const {
    return net_.named_parameters();
  }
  double loss() const { return loss_; }

 private:
  static model::Blueprint blueprint() {
    Options options({{"dropout", 0.4, ""}, {"norm", false, ""}});
    const TaskFacts facts;
    return hybrid_network({8, {1, 6, 6}, options, facts, 1});
  }

  // The rows of the batch that each pass has, of all groups.
  std::vector<std::vector<std::int64_t>> passes(std::size_t size) const {
    std::vector<std::vector<std::int64_t>> passes;
    for (int replica = 0; replica < grid_.replicas; ++replica) {
      std::vector<data::Range> shares;
      std::vector<std::size_t> sizes;
      for (int p = 0; p < grid_.partitions; ++p) {
        shares.push_back(
            data::even_share({0, size}, replica * grid_.partitions + p, grid_.ranks()));
        sizes.push_back(shares.back().size());
      }
      const auto rounds = plan_rounds(sizes, scheme_.senders, scheme_.passes);
      passes.resize(rounds.size());
      for (std::size_t j = 0; j < rounds.size(); ++j) {
        for (std::size_t p = 0; p < shares.size(); ++p) {
          for (std::size_t i = rounds[j].pieces[p].begin; i < rounds[j].pieces[p].end; ++i)
            passes[j].push_back(static_cast<std::int64_t>(shares[p].begin + i));
        }
      }
    }
    return passes;
  }

  torch::Tensor images(const std::vector<std::size_t>& samples) const {
    torch::Tensor all = torch::empty({static_cast<std::int64_t>(samples.size()), 1, 6, 6});
    std::vector<std::byte> memory;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      std::memcpy(all[static_cast<std::int64_t>(i)].data_ptr(),
                  data_.read(samples[i], memory).bytes.data(), 36 * sizeof(float));
    }
    return all.to(torch::kDouble);
  }

  void clip(const std::vector<torch::Tensor>& parameters) const {
    if (clip_ > 0) torch::nn::utils::clip_grad_norm_(parameters, clip_);
  }

  void update(const std::vector<std::size_t>& samples, std::uint64_t step) {
    net_.zero_grad();
    const torch::Tensor maps = net_.stages()[0]->forward({images(samples)})[0];
    torch::Tensor gradient = torch::zeros_like(maps);
    loss_ = 0;
    for (const auto& rows : passes(samples.size())) {
      if (rows.empty()) continue;
      const torch::Tensor index = torch::tensor(rows);
      std::vector<std::size_t> numbers;
      std::vector<std::int64_t> labels;
      for (const std::int64_t row : rows) {
        numbers.push_back(samples[static_cast<std::size_t>(row)]);
        labels.push_back(data_.label(numbers.back()));
      }
      const model::RandomScope scope(1, step, numbers);
      torch::Tensor input = maps.detach().index_select(0, index).requires_grad_();
      torch::Tensor scores = input;
      for (std::size_t s = 1; s < net_.stages().size(); ++s)
        scores = net_.stages()[s]->forward({scores})[0];
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(scores, torch::tensor(labels));
      head_optimizer_->zero_grad();
      loss.backward();
      const double part = static_cast<double>(rows.size()) / static_cast<double>(samples.size());
      gradient.index_add_(0, index, input.grad() * part);
      loss_ += loss.item<double>() * part;
      clip(head_);
      head_optimizer_->step();
    }
    maps.backward(gradient);
    clip(trunk_);
    trunk_optimizer_->step();
  }

  GridOf grid_;
  Scheme scheme_;
  double clip_;
  testing_data::Stripes data_;
  model::StagedNetwork net_;
  std::vector<torch::Tensor> trunk_, head_;
  std::optional<torch::optim::SGD> trunk_optimizer_, head_optimizer_;
  double loss_ = 0;
};

class HybridVariableTest : public HybridTest {
 protected:
  void compare(const GridOf& grid, const Scheme& scheme, double clip) {
    const std::string name = grid.name() + scheme.name + (clip > 0 ? "clipped" : "");
    const RunResult result = train_on(
        grid.ranks(),
        hybrid(name, grid,
               scheme.overrides + Overrides{"model.options.dropout=0.4", "schedule.name=constant",
                                            "hybrid.variable_batch=true",
                                            "training.clip_norm=" + std::to_string(clip)}));
    if (!first()) return;
    Reference reference(grid, scheme, clip);
    expect_trained(result, reference, name);
  }
  static void expect_trained(const RunResult& result, Reference& reference,
                             const std::string& name) {
    reference.train(1);
    EXPECT_NEAR(result.loss, reference.loss(), 1e-9 * reference.loss()) << name;
    const State state = state_of(result.checkpoint);
    for (const auto& item : reference.parameters()) {
      const torch::Tensor wanted = item.value().detach();
      const double most = (state.model.at(item.key()) - wanted).abs().max().item<double>();
      EXPECT_LT(most, 1e-9 * std::max(1e-3, wanted.abs().max().item<double>()))
          << name << " " << item.key();
    }
  }
};

TEST_F(HybridVariableTest, UpdatesPartitionedLayersInEachPass) {
  for (const GridOf& grid : grids()) {
    for (const Scheme& scheme : schemes(grid.partitions)) {
      if (scheme.name == "a") continue;
      for (const double clip : {0.0, 0.2}) compare(grid, scheme, clip);
    }
  }
}

// Sums and updates of each pass are seen, as those of the other layers are.
TEST_F(HybridVariableTest, ATimelineHasTheUpdatesOfEachPass) {
  for (const GridOf& grid : grids()) {
    TrainerOptions options{.progress = false};
    options.timeline = folder_ + "/" + grid.name() + ".json";
    const Recipe r = hybrid(grid.name(), grid,
                            {"training.epochs=0", "training.steps=3", "training.batch=16",
                             "hybrid.variable_batch=true", "hybrid.scheme=b"});
    Trainer(test_world(), registry_, r, options).run();
    all().barrier();
    for (const auto& rank : test::read_timeline(read_text_file(options.timeline), ranks())) {
      const auto& training = rank.at("training");
      EXPECT_EQ(test::count_spans(training, "update"), 3 * (grid.partitions + 1)) << grid.name();
      // What all ranks have is asked once, and replicas add up in each pass.
      const int sums = grid.replicas > 1 ? grid.partitions : 0;
      const int exposed = test::count_spans(training, "exposed communication");
      EXPECT_GE(exposed, 3 * (1 + sums)) << grid.name();
      // Ranks ask each other whether to stop before the first update, and where one has taken long
      // before the next one.
      EXPECT_LE(exposed, 3 * (1 + sums) + 3) << grid.name();
    }
    all().barrier();
  }
}

// Partitioned layers keep the rate that belongs to the batch of a pass.
TEST_F(HybridVariableTest, EachKindOfLayerHasTheRateOfItsBatch) {
  for (const GridOf& grid : grids()) {
    for (const Scheme& scheme : schemes(grid.partitions)) {
      if (!scheme.name.starts_with("c")) continue;
      const std::string name = grid.name() + scheme.name;
      const RunResult result = train_on(
          grid.ranks(),
          hybrid(name, grid,
                 scheme.overrides + Overrides{"model.options.dropout=0.4", "schedule.name=constant",
                                              "hybrid.variable_batch=true", "hybrid.rates=linear",
                                              "hybrid.base_batch=3", "optimizer.lr=0.03"}));
      if (!first()) continue;
      // No more than a rank has samples.
      const int passes = std::min(scheme.passes > 0 ? scheme.passes : grid.partitions,
                                  (12 + grid.ranks() - 1) / grid.ranks());
      Reference reference(grid, scheme, 0, 0.03 * 4, 0.03 * 4 / passes);
      expect_trained(result, reference, name);
    }
  }
}

// Each kind of layer has had updates of its own number, and goes on from there.
TEST_F(HybridVariableTest, GoesOnWithBothCountsOfUpdates) {
  for (const GridOf& grid : grids()) {
    const Overrides how{"hybrid.variable_batch=true", "hybrid.scheme=b",
                        "optimizer.name=adam",        "optimizer.momentum=0",
                        "optimizer.lr=0.01",          "model.options.dropout=0.4"};
    const RunResult whole = train_on(grid.ranks(), hybrid("whole" + grid.name(), grid, how));
    const Recipe r = hybrid("parts" + grid.name(), grid, how);
    train_on(grid.ranks(), r, 3);
    const RunResult end = train_on(grid.ranks(), r, 0, "latest");
    if (!first()) continue;
    EXPECT_TRUE(same_tensors(whole.checkpoint, end.checkpoint)) << grid.name();
    const State state = state_of(end.checkpoint);
    EXPECT_EQ(state.numbers.at("optimizer.step/f.conv.weight"), 6);
    if (grid.partitions == 1) continue;
    // The last batch of an epoch is one sample: one pass has it.
    EXPECT_EQ(state.numbers.at("optimizer.step/c.6.weight"), 5 * grid.partitions + 1);
  }
}

// Whatever the scheme, with one update of all layers or with one of the divided ones in each pass.
TEST_F(HybridTest, GradientsThatAreNoNumbersAreNotApplied) {
  testing_data::add_steep_task(registry_);
  const Overrides how{"task.name=steep", "task.options.at=4", "checkpoint.every_steps=1",
                      "checkpoint.keep=2"};
  for (const GridOf& grid : grids()) {
    for (const Scheme& scheme : schemes(grid.partitions)) {
      for (const bool variable : {false, true}) {
        if (variable && scheme.name == "a") continue;  // has one pass
        Overrides all = how + scheme.overrides;
        if (variable) all.emplace_back("hybrid.variable_batch=true");
        const std::string name = grid.name() + scheme.name + (variable ? "-variable" : "");
        expect_diverged(hybrid(name, grid, all));
      }
    }
  }
}

TEST_F(HybridTest, TheNormOfGradientsIsThatOfOneProcess) {
  const Recipe serial = net("serial");
  train_on(1, serial);
  for (const GridOf& grid : grids()) {
    const Recipe r = hybrid(grid.name(), grid);
    train_on(grid.ranks(), r);
    expect_norms(serial, r);
  }
}

}  // namespace
}  // namespace convoy::train
