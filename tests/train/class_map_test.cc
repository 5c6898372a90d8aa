// Tasks whose classes are not the labels of the data.
#include "convoy/train/trained.h"
#include "tests/train/many_labels.h"
#include "tests/train/trainer_fixture.h"
#include "train/setup.h"

namespace convoy::train {
namespace {

// Stripes with other labels: "dark" and "light" are one class.
class Relabeled final : public data::Dataset {
 public:
  explicit Relabeled(std::size_t size) : whole_(size) {}
  std::size_t size() const override { return whole_.size(); }
  const std::vector<std::string>& classes() const override { return classes_; }
  data::Record read(std::size_t i, std::vector<std::byte>& scratch) const override {
    data::Record record = whole_.read(i, scratch);
    record.label = label(i);
    return record;
  }
  std::string key(std::size_t i) const override { return whole_.key(i); }
  std::int64_t label(std::size_t i) const override { return whole_.label(i) == 1 ? 1 : 0; }
  std::uint64_t fingerprint() const override { return whole_.fingerprint(); }

 private:
  testing_data::Stripes whole_;
  std::vector<std::string> classes_{"dark+light", "gray"};
};

class ClassMapTest : public TrainerTest {
 protected:
  void SetUp() override {
    TrainerTest::SetUp();
    registry_.add_reader(
        "relabeled",
        [](const Options& o) {
          return std::make_shared<Relabeled>(static_cast<std::size_t>(o.integer("size")));
        },
        {{"size", std::int64_t{0}, "samples"}});
    testing_data::add_many_labels(registry_);
  }
  std::string mistakes(const Overrides& overrides) const {
    return test::message_of<UsageError>([&] { recipe("wrong", overrides); });
  }
};

// Whoever says which classes there are, the data or the task.
TEST_F(ClassMapTest, IsTheSameAsOtherLabelsInTheData) {
  for (const std::string task : {"classification", "one_vs_all"}) {
    SCOPED_TRACE(task);
    const Overrides name{"task.name=" + task};
    Overrides mapped = name, relabeled = name;
    mapped.push_back("task.options.classes=[0, 1, 0]");
    // The keys of another reader are its own.
    relabeled.insert(relabeled.end(),
                     {"data.reader=relabeled", "data.train.size=61", "data.validation.size=40"});
    const Recipe r = recipe("mapped-" + task, mapped);
    const RunResult mine = train(r);
    const RunResult other = train(recipe("relabeled-" + task, relabeled));
    EXPECT_EQ(mine.steps, other.steps);
    for (const Evaluation::Figure& figure : mine.evaluation->figures)
      EXPECT_EQ(figure.value, other.evaluation->score(figure.metric.name) *
                                  (figure.metric.higher_is_better ? 1 : -1))
          << figure.metric.name;
    if (first()) EXPECT_TRUE(same_tensors(mine.checkpoint, other.checkpoint));
    // As what was trained is used.
    const TrainedSource source = find_trained(registry_, r.output.folder, Which::newest, {});
    Trained trained(test_world(), registry_, source);
    EXPECT_EQ(trained.task().facts().lists.at("classes"),
              (std::vector<std::string>{"dark+light", "gray"}));
    EXPECT_EQ(trained.task().outputs(), 2);
    const auto data = open_data(all(), registry_, trained.recipe().data);
    const Evaluation again = trained.evaluate(data.validation, {});
    EXPECT_EQ(again.score("top1"), mine.evaluation->score("top1"));
  }
}

TEST_F(ClassMapTest, NamesAndMoreScoresAreTheRecipes) {
  const Recipe r = recipe(
      "named", {"task.options.classes=[1, 0, 1]", "task.options.class_names=[\"odd\", \"even\"]",
                "model.classes=3", "training.epochs=1"});
  train(r);
  const TrainedSource source = find_trained(registry_, r.output.folder, Which::newest, {});
  const Trained trained(test_world(), registry_, source);
  EXPECT_EQ(trained.task().facts().lists.at("classes"), (std::vector<std::string>{"odd", "even"}));
  EXPECT_EQ(trained.task().outputs(), 3);
}

// Names of classes say nothing of which labels they are of.
TEST_F(ClassMapTest, LabelsInAnotherOrderAreRefused) {
  const std::string names = "task.options.class_names=[\"outer\", \"inner\"]";
  const auto task_of = [&](const std::string& classes) {
    return registry_.make_task(recipe("ordered", {"task.options.classes=" + classes, names}));
  };
  const testing_data::Stripes data(12);  // dark, gray, light
  const testing_data::Stripes turned(12, {}, {"gray", "dark", "light"});
  const testing_data::Stripes other(12, {}, {"black", "gray", "white"});
  const auto task = task_of("[0, 1, 0]");
  EXPECT_NE(test::message_of<UsageError>([&] {
              task->look(data, &turned);
            }).find("data.train and data.validation have different classes: number 0"),
            std::string::npos);
  task->look(data, nullptr);
  EXPECT_EQ(test::message_of<UsageError>([&] { task->check(data, "it"); }), "");
  const auto said = [&](const Task& asked, const data::Dataset& of) {
    return test::message_of<UsageError>([&] { asked.check(of, "it"); });
  };
  EXPECT_EQ(said(*task, turned),
            "what the network was trained on and it have different labels, of which "
            "task.options.classes says the classes: number 0 is 'dark' in one, 'gray' in the "
            "other");
  EXPECT_NE(said(*task, other).find("number 0 is 'dark' in one, 'black' in the other"),
            std::string::npos);
  // A checkpoint has them, and whoever says the class of each label anew is believed, but for those
  // that are known.
  const auto again = [&](const std::string& classes) {
    auto restored = task_of(classes);
    restored->restore(task->facts());
    return restored;
  };
  EXPECT_NE(said(*again("[0, 1, 0]"), turned), "");
  EXPECT_EQ(said(*again("[1, 0, 0]"), turned), "");
  EXPECT_EQ(
      said(*again("[1, 0, 1]"), turned),
      "task.options.classes makes 'inner' of the label 'light' of it; the network was trained "
      "with 'outer' for it");
  // One of before has none of it.
  TaskFacts old = task->facts();
  old.lists.erase("labels");
  auto restored = task_of("[0, 1, 0]");
  restored->restore(old);
  EXPECT_EQ(said(*restored, turned), "");
}

TEST_F(ClassMapTest, MistakesAreNamed) {
  const auto said = [&](const Overrides& overrides, const std::string& part) {
    const std::string text = mistakes(overrides);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  said({"task.options.classes=[0, -1, 1]"},
       "task.options.classes: -1, for label 1, is no class; classes are whole numbers from 0 on");
  said({"task.options.classes=[0, 0.5, 1]"}, "0.5, for label 1, is no class");
  said({"task.options.classes=[0, 2, 2]"},
       "task.options.classes has a class 2, but no label of class 1; classes are counted from 0");
  said({"task.options.classes=[1, 1, 1]"}, "no label of class 0");
  said({"task.options.class_names=[\"a\"]"}, "is for task.options.classes, which is empty");
  said({"task.options.classes=[0, 1, 0]", "task.options.class_names=[\"a\"]"},
       "class_names has 1 names, task.options.classes 2 classes");
  said({"task.options.classes=[0, 1, 0]", "task.options.class_names=[\"a\", \"a\"]"},
       "has a name twice");
  EXPECT_EQ(refusal(recipe("short", {"task.options.classes=[0, 1]"})),
            "task.options.classes has 2 numbers, but data.train 3 labels: it has to give the class "
            "of each");
  EXPECT_EQ(refusal(recipe("few", {"task.options.classes=[0, 1, 0]", "model.classes=1"})),
            "model.classes is 1, but there are 2 classes");
}

// Of several labels of one class a sample has one.
TEST_F(ClassMapTest, SeveralLabelsOfASample) {
  const Recipe r = recipe(
      "many", {"task.name=one_vs_all", "data.reader=many", "task.options.classes=[0, 1, 1, 0]"});
  const auto task = registry_.make_task(r);
  const testing_data::ManyLabels data(20);
  task->look(data, nullptr);
  EXPECT_EQ(task->outputs(), 2);
  const Compute compute(r);
  std::vector<std::size_t> samples(20);
  std::vector<std::int64_t> labels(20);
  std::vector<std::vector<std::int64_t>> lists;
  std::vector<float> pixels(20 * 36);
  data::Batch batch;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = i;
    labels[i] = data.label(i);
    lists.push_back(data.labels(i));
  }
  batch.samples = samples;
  batch.labels = labels;
  batch.label_lists = lists;
  batch.shape = {1, 6, 6};
  batch.bytes = std::as_writable_bytes(std::span(pixels));
  const torch::Tensor targets = task->tensors(batch, {0, 20}, compute).tensors.at("labels");
  for (std::size_t i = 0; i < samples.size(); ++i) {
    bool outer = false, inner = false;
    for (const std::int64_t label : lists[i]) (label == 1 || label == 2 ? inner : outer) = true;
    const auto row = targets[static_cast<std::int64_t>(i)];
    EXPECT_EQ(row[0].item<double>(), outer) << i;
    EXPECT_EQ(row[1].item<double>(), inner) << i;
  }
}

}  // namespace
}  // namespace convoy::train
