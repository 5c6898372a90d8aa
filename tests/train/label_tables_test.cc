// Training on pictures in files: those whose labels stand in a table, from their folder and packed;
// gray ones among those in color; classes that validation lacks.
#include "convoy/data/comm_peers.h"
#include "convoy/data/pack.h"
#include "convoy/train/trained.h"
#include "tests/train/trainer_fixture.h"
#include "train/setup.h"

namespace convoy::train {
namespace {

class LabelTables : public TrainerTest {};

constexpr const char* kTable = R"(
name = "table"
[task]
name = "one_vs_all"
[model]
name = "small"
[data]
reader = "image_folder"
size = 6
channels = 1
[data.train]
path = "FOLDER/pictures"
labels = "FOLDER/labels.tsv"
[data.validation]
path = "FOLDER/pictures"
labels = "FOLDER/labels.tsv"
[data.augment]
crop = "center"
resize = 6
[optimizer]
lr = 0.1
[training]
batch = 4
epochs = 2
[output]
tensorboard = false
)";

TEST_F(LabelTables, LabelsComeFromATable) {
  if (first()) {
    std::filesystem::create_directory(folder_ + "/pictures");
    std::string table;
    for (const char* line : {"a.png\tsea", "b.png\tsea,sky,sun", "c.png", "d.png\tsky", "e.png"}) {
      table += std::string(line) + "\n";
      std::filesystem::copy_file(test::source_folder() + "/tests/data/fixtures/gray.png",
                                 folder_ + "/pictures/" + std::string(line, 5));
    }
    write_file_atomically(folder_ + "/labels.tsv", table);
  }
  all().barrier();
  const auto table = [&](const std::string& name, Overrides overrides = {}) {
    overrides.insert(overrides.begin(), "output.folder=\"" + folder_ + "/" + name + "\"");
    std::string text = kTable;
    for (std::size_t at = 0; (at = text.find("FOLDER")) != text.npos;) text.replace(at, 6, folder_);
    return parse_recipe({text, "table.toml", "/"}, overrides, registry_.vocabulary());
  };
  const RunResult result = train(table("run"));
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(result.evaluation->samples, 5u);
  // Numbers of classes mean nothing to a network that knows others.
  all().barrier();
  const auto evaluated = [&](const std::string& second) {
    all().barrier();
    if (first())
      write_file_atomically(folder_ + "/test.tsv",
                            "a.png\tsea\nb.png\tsea," + second + "\nc.png\nd.png\ne.png\n");
    all().barrier();
    const TrainedSource source =
        find_trained(registry_, table("run").output.folder, Which::newest,
                     {"data.validation.labels=\"" + folder_ + "/test.tsv\""});
    Trained trained(test_world(), registry_, source);
    data::CommPeers peers(all());
    const auto data = registry_.open_data("image_folder", trained.recipe().data.validation, peers);
    return trained.evaluate(data, {}).samples;
  };
  const std::string others = test::message_of<UsageError>([&] { evaluated("moon"); });
  EXPECT_NE(others.find("number 0 is 'sea' in one, 'moon' in the other; the first may have more "
                        "than the second, but 'moon' is in the second alone"),
            std::string::npos)
      << others;
  // Classes that nothing is evaluated on have their numbers all the same.
  EXPECT_EQ(evaluated("sun"), 5u);
  EXPECT_NE(refusal(table("store", {"data.store=memory"})).find("is for packed data"),
            std::string::npos);
  const std::string names = test::message_of<UsageError>([&] {
    table("names",
          {"data.train.labels=\"\"", "data.train.class_names=\"" + folder_ + "/labels.tsv\""});
  });
  EXPECT_NE(names.find("class_names is for images with a table"), std::string::npos) << names;
}

constexpr const char* kPictures = R"(
name = "pictures"
[task]
name = "one_vs_all"
[model]
name = "small"
[optimizer]
lr = 0.1
momentum = 0.9
[training]
batch = 4
epochs = 3
[output]
tensorboard = false
[data]
size = 6
channels = 1
augment.crop = "random_resized"
augment.flip = true
)";

// Where the labels stand, and where the records are, changes nothing of what is learned.
TEST_F(LabelTables, PackedPicturesAreLearnedAsThoseOfTheFolder) {
  if (first()) {
    std::filesystem::create_directory(folder_ + "/pictures");
    std::string table;
    for (const char* line :
         {"color16.png\tcolor", "color420.jpg\tcolor,jpeg", "color422.jpg\tjpeg,color", "gray.jpg",
          "gray.png\tgray", "large420.jpg\tcolor,jpeg,gray", "palette.png", "pattern.png\tcolor",
          "restarts.jpg\tcolor,jpeg", "rgb.jpg\tjpeg"}) {
      const std::string text = line, name = text.substr(0, text.find('\t'));
      table += text + "\n";
      std::filesystem::copy_file(test::source_folder() + "/tests/data/fixtures/" + name,
                                 folder_ + "/pictures/" + name);
    }
    write_file_atomically(folder_ + "/labels.tsv", table);
    data::PackOptions options;
    options.sources = {folder_ + "/pictures"};
    options.out = folder_ + "/pictures.tar";
    options.label_table = folder_ + "/labels.tsv";
    options.keep = true;
    data::pack(options);
  }
  all().barrier();
  const auto run = [&](const std::string& name, const std::string& store) {
    const bool packed = name != "folder";
    const std::string where =
        packed ? "files = [\"" + folder_ + "/pictures.tar\"]"
               : "path = \"" + folder_ + "/pictures\"\nlabels = \"" + folder_ + "/labels.tsv\"";
    const std::string text = kPictures + std::string("reader = \"") +
                             (packed ? "packed" : "image_folder") + "\"\n[data.train]\n" + where +
                             "\n[data.validation]\n" + where;
    const Recipe r =
        parse_recipe({text, "pictures.toml", "/"},
                     {"output.folder=\"" + folder_ + "/" + name + "\"", "data.store=" + store},
                     registry_.vocabulary());
    const RunResult result = train(r);
    all().barrier();
    std::vector<double> losses;
    for (const auto& row : rows(r, "step")) losses.push_back(row["loss"]);
    EXPECT_EQ(losses.size(), 9u);
    return std::pair(result, losses);
  };
  const auto [expected, losses] = run("folder", "files");
  EXPECT_EQ(expected.evaluation->samples, 10u);
  const auto [files, files_losses] = run("files", "files");
  EXPECT_EQ(files_losses, losses);
  EXPECT_EQ(largest_difference(files.checkpoint, expected.checkpoint), 0);
  for (const std::string store : {"memory", "host"}) {
    // Ranks share a batch otherwise, so sums are rounded otherwise.
    const auto [held, held_losses] = run(store, store);
    ASSERT_EQ(held_losses.size(), losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(held_losses[i], losses[i], 1e-4) << store << " " << i;
    EXPECT_LT(largest_difference(held.checkpoint, expected.checkpoint), 1e-4);
    for (const char* figure : {"map", "f1", "top1", "loss"})
      EXPECT_NEAR(held.evaluation->at(figure), expected.evaluation->at(figure), 1e-3) << figure;
  }
}

// Gray and colored pictures in one folder; which of them comes first decides little.
constexpr const char* kMixed = R"(
name = "mixed"
[model]
name = "mlp"
options.hidden = [4]
[data]
reader = "image_folder"
size = 6
[data.train]
path = "FOLDER/mixed/train"
[data.validation]
path = "FOLDER/mixed/validation"
[data.augment]
crop = "center"
resize = 6
[optimizer]
lr = 0.1
[training]
batch = 2
epochs = 1
[output]
tensorboard = false
)";

class MixedPictures : public TrainerTest {
 protected:
  // Two classes with two pictures each: the first of the first class, and the others.
  void make(const std::string& part, const std::string& first_one, const std::string& other) {
    namespace fs = std::filesystem;
    for (const std::string name : {"a/0", "a/1", "b/0", "b/1"}) {
      const fs::path file = folder_ + "/mixed/" + part + "/" + name + ".jpg";
      fs::create_directories(file.parent_path());
      fs::copy_file(
          test::source_folder() + "/tests/data/fixtures/" + (name == "a/0" ? first_one : other),
          file, fs::copy_options::overwrite_existing);
    }
  }
  Recipe mixed(const std::string& name, Overrides overrides = {}) const {
    overrides.insert(overrides.begin(), "output.folder=\"" + folder_ + "/" + name + "\"");
    std::string text = kMixed;
    for (std::size_t at = 0; (at = text.find("FOLDER")) != text.npos;) text.replace(at, 6, folder_);
    return parse_recipe({text, "mixed.toml", "/"}, overrides, registry_.vocabulary());
  }
};

TEST_F(MixedPictures, AnEvaluationIsInTheColorsOfTheTraining) {
  if (first()) {
    make("train", "color420.jpg", "gray.jpg");
    make("validation", "gray.jpg", "color420.jpg");
  }
  all().barrier();
  const Recipe recipe = mixed("run");
  const RunResult result = train(recipe);
  EXPECT_EQ(result.evaluation->samples, 4u);
  all().barrier();
  // As if it had been asked for.
  const RunResult three = train(mixed("three", {"data.channels=3"}));
  EXPECT_EQ(result.evaluation->at("loss"), three.evaluation->at("loss"));
  all().barrier();
  const TrainedSource source = find_trained(registry_, recipe.output.folder, Which::newest, {});
  Trained trained(test_world(), registry_, source);
  const auto opened = open_data(all(), registry_, trained.recipe().data);
  EXPECT_NEAR(trained.evaluate(opened.validation, {}).at("loss"), three.evaluation->at("loss"),
              1e-9);
}

TEST_F(MixedPictures, AFirstPictureThatIsGrayIsSaidToMakeTheOthersGray) {
  if (first()) {
    make("train", "gray.jpg", "color420.jpg");
    make("validation", "color420.jpg", "color420.jpg");
  }
  all().barrier();
  const auto said = [&](const Recipe& recipe) {
    testing::internal::CaptureStderr();
    train(recipe);
    return testing::internal::GetCapturedStderr();
  };
  const std::string gray = folder_ + "/mixed/train/a/0.jpg, the first picture, is gray, and " +
                           folder_ + "/mixed/train/a/1.jpg is in color; with data.channels = 0";
  const std::string silent = said(mixed("silent")), told = said(mixed("told", {"data.channels=1"}));
  EXPECT_EQ(silent.find(gray) != std::string::npos, first()) << silent;
  EXPECT_EQ(told.find("is in color"), std::string::npos) << told;
}

// Before hours of training, and not at the first evaluation.
TEST_F(MixedPictures, EvaluationsOnImagesOfAnotherSizeAreSaidAtTheStart) {
  if (first()) {
    make("train", "color420.jpg", "color420.jpg");
    make("validation", "large420.jpg", "large420.jpg");
  }
  all().barrier();
  testing::internal::CaptureStderr();
  train(mixed("stored", {"model.name=resnet20", "model.options={}", "data.size=0"}));
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string other =
      "evaluations are on images of 3 x 120 x 150, and the network is trained on 3 x 29 x 37";
  EXPECT_EQ(said.find(other) != std::string::npos, first()) << said;
}

TEST_F(MixedPictures, AFileThatIsListedTwiceIsTakenTwiceWhichIsSaid) {
  const std::string tar = folder_ + "/mixed.tar";
  if (first()) {
    make("train", "gray.jpg", "gray.jpg");
    data::PackOptions options;
    options.sources = {folder_ + "/mixed/train"};
    options.out = tar;
    options.keep = options.overwrite = true;
    data::pack(options);
  }
  all().barrier();
  const auto opened = [&](const std::string& files) {
    return open_data(all(), registry_,
                     mixed("packed", {"data.reader=packed", "data.train.files=[" + files + "]",
                                      "data.validation.files=[\"" + tar + "\"]"})
                         .data);
  };
  const DataSets once = opened("\"" + tar + "\"");
  EXPECT_EQ(once.remarks, std::vector<std::string>());
  const DataSets twice = opened("\"" + tar + "\", \"" + folder_ + "/./mixed.tar\"");
  EXPECT_EQ(twice.training->size(), 2 * once.training->size());
  EXPECT_EQ(twice.remarks,
            (std::vector<std::string>{"data.train.files has " + tar +
                                      " more than once: its samples count as often"}));
}

// Of classes a, b and c, of which validation has b and c alone.
TEST_F(LabelTables, ValidationMayLackClasses) {
  if (first()) {
    for (const char* name :
         {"train/a/1.png", "train/b/1.png", "train/b/2.png", "train/c/1.png", "val/b/1.png",
          "val/c/1.png", "val/c/2.png", "more/c/1.png", "new/b/1.png", "new/d/1.png"}) {
      const std::filesystem::path to = folder_ + "/" + name;
      std::filesystem::create_directories(to.parent_path());
      std::filesystem::copy_file(test::source_folder() + "/tests/data/fixtures/gray.png", to);
    }
    std::filesystem::copy_file(test::source_folder() + "/tests/data/fixtures/gray.png",
                               folder_ + "/train/b/3.webp");
  }
  all().barrier();
  const auto folders = [&](const std::string& validation) {
    const std::string text =
        kPictures + std::string("reader = \"image_folder\"\n") + "[data.train]\npath = \"" +
        folder_ + "/train\"\n[data.validation]\npath = \"" + folder_ + "/" + validation + "\"";
    return parse_recipe(
        {text, "folders.toml", "/"},
        {"output.folder=\"" + folder_ + "/" + validation + "-run\"", "task.name=classification"},
        registry_.vocabulary());
  };
  const DataSets data = open_data(all(), registry_, folders("val").data);
  EXPECT_EQ(data.validation->classes(), data.training->classes());
  ASSERT_EQ(data.validation->size(), 3u);
  std::vector<std::byte> scratch;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(data.validation->label(i), i == 0 ? 1 : 2);
    EXPECT_EQ(data.validation->read(i, scratch).label, data.validation->label(i));
    EXPECT_EQ(data.validation->labels(i), std::vector<std::int64_t>{data.validation->label(i)});
  }
  EXPECT_NE(data.validation->fingerprint(),
            open_data(all(), registry_, folders("more").data).validation->fingerprint());
  // The first rank looked, and says what was left out.
  if (first()) {
    ASSERT_EQ(data.remarks.size(), 2u);
    EXPECT_EQ(data.remarks[0],
              folder_ + "/train: 1 picture that is no .jpg, .jpeg or .png file is left out, " +
                  folder_ + "/train/b/3.webp");
  }
  EXPECT_EQ(data.remarks.back(),
            "data.validation has nothing of 1 of the 3 classes of data.train: 'a'");
  if (first()) {
    // A path that leads one folder too high.
    std::filesystem::create_directories(folder_ + "/high/train");
    std::filesystem::copy(folder_ + "/train", folder_ + "/high/train",
                          std::filesystem::copy_options::recursive);
  }
  all().barrier();
  Recipe high = folders("val");
  high.data.train.set("path", folder_ + "/high");
  high.data.has_validation = false;
  const DataSets one = open_data(all(), registry_, high.data);
  EXPECT_NE(one.remarks.back().find("data.train has one class, 'train'"), std::string::npos);
  const RunResult result = train(folders("val"));
  EXPECT_EQ(result.evaluation->samples, 3u);
  const std::string why = refusal(folders("new"));
  EXPECT_NE(why.find("'d' is in the second alone"), std::string::npos) << why;
}

}  // namespace
}  // namespace convoy::train
