// Image folders with a table of labels.
#include <fstream>

#include "convoy/data/loader.h"
#include "convoy/data/peers.h"
#include "tests/data/support.h"
#include "tests/data/thread_peers.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;
using Labels = std::vector<std::int64_t>;

class LabelTableTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"b.jpg", "deep/a.png", "deep/er/c.JPEG"}) add(name);
  }
  void add(const std::string& name) {
    fs::create_directories(fs::path(folder.path(name)).parent_path());
    fs::copy_file(fixture("gray.png"), folder.path(name));
  }
  std::string text(const std::string& name, const std::string& content) {
    std::ofstream(other.path(name)) << content;
    return other.path(name);
  }
  std::shared_ptr<Dataset> open(const std::string& table, const std::string& classes = "") {
    Alone alone;
    LabelTable files{text("labels.tsv", table), ""};
    if (!classes.empty()) files.class_names = text("classes.txt", classes);
    return open_image_folder(folder.path(), files, alone);
  }
  void refused(const std::string& table, const std::vector<std::string>& parts,
               const std::string& classes = "") {
    expect_error<UsageError>([&] { open(table, classes); }, parts);
  }

  Scratch folder, other;
};

constexpr const char* kTable = "deep/er/c.JPEG\tdog\r\n\nb.jpg\tdog, big cat,ant\n./deep//a.png\n";

TEST_F(LabelTableTest, ImagesHaveAnyNumberOfLabels) {
  const auto set = open(kTable);
  EXPECT_TRUE(set->label_lists());
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"ant", "big cat", "dog"}));
  ASSERT_EQ(set->size(), 3u);
  const std::vector<std::string> names = {"b.jpg", "deep/a.png", "deep/er/c.JPEG"};
  const std::vector<Labels> labels = {{0, 1, 2}, {}, {2}};
  Bytes scratch;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(set->key(i), folder.path(names[i]));
    EXPECT_EQ(set->labels(i), labels[i]);
    EXPECT_EQ(set->label(i), labels[i].empty() ? -1 : labels[i][0]);
    EXPECT_EQ(set->read(i, scratch).label, set->label(i));
  }
  // Without a last end of line, and with nothing behind a tab.
  EXPECT_EQ(open("b.jpg\t \ndeep/a.png\t\ndeep/er/c.JPEG\tdog")->labels(2), Labels{0});
}

TEST_F(LabelTableTest, ClassesMayBeNamedInAnOrderOfTheirOwn) {
  const auto set = open(kTable, "dog\nbear\nant\nbig cat\n");
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"dog", "bear", "ant", "big cat"}));
  EXPECT_EQ(set->labels(0), (Labels{0, 2, 3}));
  EXPECT_EQ(set->label(0), 0);
  EXPECT_EQ(set->labels(2), Labels{0});
  // With classes that are known, no image needs a label.
  EXPECT_EQ(open("b.jpg\ndeep/a.png\ndeep/er/c.JPEG\n", "dog\n")->labels(0), Labels());
}

// As some editors write it.
TEST_F(LabelTableTest, FilesMayBeginWithTheMarkOfUtf8) {
  const std::string mark = "\xef\xbb\xbf";
  const auto set = open(mark + "b.jpg\tdog\ndeep/a.png\ndeep/er/c.JPEG\n", mark + "dog\n");
  EXPECT_EQ(set->classes(), std::vector<std::string>{"dog"});
  EXPECT_EQ(set->labels(0), Labels{0});
}

TEST_F(LabelTableTest, TheFingerprintKnowsLabels) {
  const std::uint64_t before = open(kTable)->fingerprint();
  EXPECT_EQ(open(kTable)->fingerprint(), before);
  EXPECT_NE(open("deep/er/c.JPEG\tdog\nb.jpg\tdog,big cat,ant\ndeep/a.png\tant\n")->fingerprint(),
            before);
  EXPECT_NE(open("deep/er/c.JPEG\tant\nb.jpg\tdog,big cat,ant\ndeep/a.png\n")->fingerprint(),
            before);
}

TEST_F(LabelTableTest, ErrorsNameTheLine) {
  const std::string table = other.path("labels.tsv");
  const std::string rest = "deep/a.png\tdog\ndeep/er/c.JPEG\tdog\n";
  refused(rest, {folder.path("b.jpg") + " has no line in " + table});
  refused(rest + "b.jpg\tdog\ndeep/er/d.jpg\tdog\n",
          {table + ": line 4: 'deep/er/d.jpg' is no .jpg, .jpeg or .png file in", folder.path()});
  refused(rest + "z.jpg\tdog\n", {table + ": line 3: 'z.jpg' is no"});
  refused(rest + "b.jpg\tdog\nz.jpg\n", {table + ": line 4: 'z.jpg' is no"});
  // The line that is wrong, before the image that has none because of it.
  refused(rest + "b.jpg dog\n", {table + ": line 3: 'b.jpg dog' is no", "(a tab stands between"});
  refused("deep/er/c.JPEG,dog\nb.jpg,dog\ndeep/a.png\tdog\n",
          {table + ": line 1: 'deep/er/c.JPEG,dog' is no"});
  refused("deep/er/c.JPEG,dog\nb.jpg,dog\n", {"no image has a label", "(a tab stands between"});
  refused("a.jpg dog\n", {table + ": line 1: 'a.jpg dog' is no", "(a tab stands between"}, "dog");
  refused(rest + "b.jpg\tdog\n\n./b.jpg\tdog\n", {table + ": line 5 is the second one for b.jpg"});
  refused(rest + "b.jpg\tdog,cat,dog\n", {table + ": line 3 has the class 'dog' twice"});
  refused(rest + "b.jpg\tdog,,cat\n", {table + ": line 3 has an empty name"});
  refused(rest + "b.jpg\tdog,\n", {table + ": line 3 has an empty name"});
  refused(rest + "b.jpg\tdog\tcat\n", {table + ": line 3 is not 'PATH<tab>CLASS,CLASS'"});
  refused(rest + "\tdog\n", {table + ": line 3 is not 'PATH"});
  refused(rest + "b.jpg\tdgo\n",
          {table + ": line 3 has the class 'dgo', which is not among the 2 of ", "classes.txt"},
          "dog\ncat\n");
  for (const std::string wrong : {"dog ", " dog", "dog,cat"}) {
    refused(rest + "b.jpg\tdog\n", {"classes.txt: line 2, '" + wrong + "', is no name"},
            "dog\n" + wrong + "\n");
  }
  refused("b.jpg\ndeep/a.png\ndeep/er/c.JPEG\n", {table + ": no image has a label"});
  Alone alone;
  const LabelTable files{text("labels.tsv", "a.jpg\tdog\n"), ""};
  expect_error<UsageError>([&] { open_image_folder(folder.path("no"), files, alone); },
                           {folder.path("no"), "no such folder"});
}

TEST_F(LabelTableTest, TheFirstRankReadsAndTellsTheOthers) {
  const auto alone = open(kTable);
  run_ranks(3, [&](Peers& peers) {
    const LabelTable files{peers.rank() == 0 ? other.path("labels.tsv") : "/nothing", ""};
    const auto set = open_image_folder(folder.path(), files, peers);
    EXPECT_EQ(set->classes(), alone->classes());
    EXPECT_EQ(set->fingerprint(), alone->fingerprint());
    ASSERT_EQ(set->size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(set->key(i), alone->key(i));
      EXPECT_EQ(set->labels(i), alone->labels(i));
    }
  });
  text("labels.tsv", "b.jpg\tdog\n");
  run_ranks(3, [&](Peers& peers) {
    expect_error<UsageError>(
        [&] {
          open_image_folder(folder.path(), {other.path("labels.tsv"), ""}, peers);
        },
        {folder.path("deep/a.png") + " has no line"});
  });
}

// Whoever put them there meant images: each is a record that can't be read.
TEST_F(LabelTableTest, LinksToNothingAndToThemselvesAreBadRecords) {
  fs::create_symlink("missing.jpg", folder.path("deep/d.jpg"));
  fs::create_symlink("e.jpg", folder.path("deep/e.jpg"));
  fs::create_symlink("a.png", folder.path("deep/f.png"));
  const auto set = open_image_folder(folder.path());
  ASSERT_EQ(set->size(), 5u);
  EXPECT_EQ(set->key(4), folder.path("deep/f.png"));
  std::vector<std::byte> scratch;
  for (std::size_t i = 0; i < set->size(); ++i) {
    const std::string name = set->key(i).substr(set->key(i).rfind('/') + 1);
    if (name == "d.jpg" || name == "e.jpg") {
      EXPECT_THROW(set->read(i, scratch), UsageError) << name;
    } else {
      EXPECT_NO_THROW(set->read(i, scratch)) << name;
    }
  }
}

TEST_F(LabelTableTest, BatchesCarryTheLabels) {
  std::ofstream(folder.path("deep/a.png")) << "damaged";
  const auto set = open(kTable);
  LoaderOptions options;
  options.batch = 3;
  options.shuffle = false;
  options.on_bad = OnBad::skip;
  for (const bool raw : {false, true}) {
    options.raw = raw;
    Loader loader(set, {}, options);
    const Batch& batch = *loader.next();
    ASSERT_EQ(batch.size(), raw ? 3u : 2u);
    ASSERT_EQ(batch.label_lists.size(), batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(batch.label_lists[i], set->labels(batch.samples[i]));
      EXPECT_EQ(batch.labels[i], set->label(batch.samples[i]));
    }
  }
  // Of data with one label each there is none.
  add("one/d.png");
  fs::rename(folder.path("b.jpg"), folder.path("one/b.jpg"));
  Loader loader(open_image_folder(folder.path()), {}, options);
  EXPECT_TRUE(loader.next()->label_lists.empty());
}

}  // namespace
}  // namespace convoy::data
