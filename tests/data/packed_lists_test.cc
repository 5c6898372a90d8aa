// Packed data with any number of labels for each image.
#include <fstream>

#include "convoy/data/peers.h"
#include "convoy/data/store_source.h"
#include "data/packed/index.h"
#include "data/packed/labels.h"
#include "tests/data/pack_support.h"
#include "tests/data/thread_peers.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;
using Labels = std::vector<std::int64_t>;

// A folder of six images with a table.
class PackedLists : public Pack {
 protected:
  PackedLists() {
    add("b.jpg", image("color420.jpg"));
    add("a b/1.png", image("pattern.png"));
    add("a/2.JPEG", image("gray.jpg"));
    add("a/3.x.jpg", image("color444.jpg"));
    add("a.jpg", image("color422.jpg"));
    add("c/4.jpg", image("large420.jpg"));
  }
  std::string text(const std::string& name, const std::string& content) {
    std::ofstream(folder.path(name)) << content;
    return folder.path(name);
  }
  PackOptions with_table(const std::string& table, const std::string& name = "out.tar") {
    PackOptions o = options(name);
    o.keep = o.overwrite = true;
    o.label_table = text("labels.tsv", table);
    return o;
  }
  std::shared_ptr<Dataset> from_folder() {
    Alone alone;
    return open_image_folder(source.path(), {folder.path("labels.tsv"), ""}, alone);
  }
  void refused(const PackOptions& o, const std::vector<std::string>& parts) {
    expect_error<UsageError>([&] { pack(o); }, parts);
  }
  // The version of a tar's index.
  static int version(const std::string& tar) {
    return std::to_integer<int>(read_file(tar + ".index")[8]);
  }
  // The index of the tar alone is the same, bit for bit.
  static void expect_indexed_alike(const std::string& tar) {
    const Bytes index = read_file(tar + ".index");
    fs::remove(tar + ".index");
    index_tar(tar);
    EXPECT_EQ(read_file(tar + ".index"), index);
  }
};

constexpr const char* kTable =
    "b.jpg\tdog,cat\n./a b/1.png\na//2.JPEG\tcat\na/3.x.jpg\tsea lion, dog,cat\na.jpg\nc/4.jpg\t"
    "dog\n";

// Same samples, in the same order.
void expect_same(const Dataset& a, const Dataset& b) {
  EXPECT_EQ(a.classes(), b.classes());
  EXPECT_TRUE(a.label_lists());
  EXPECT_TRUE(b.label_lists());
  ASSERT_EQ(a.size(), b.size());
  Bytes of_a, of_b;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a.labels(i), b.labels(i)) << i;
    EXPECT_EQ(a.label(i), b.label(i)) << i;
    const Record x = a.read(i, of_a), y = b.read(i, of_b);
    EXPECT_EQ(x.label, y.label);
    EXPECT_TRUE(std::ranges::equal(x.bytes, y.bytes)) << i;
  }
}

TEST_F(PackedLists, AFolderWithATableIsPackedAsItIsRead) {
  const PackOptions o = with_table(kTable);
  const PackResult result = pack(o);
  EXPECT_EQ(result.records, 6u);
  EXPECT_EQ(result.classes, 3u);
  EXPECT_EQ(result.labels, 7u);
  EXPECT_TRUE(result.label_lists);
  EXPECT_EQ(version(o.out), 2);
  const PackedFiles packed({o.out});
  expect_same(*from_folder(), packed);
  EXPECT_EQ(packed.key(3), o.out + ":a/3_x.jpg");
  EXPECT_EQ(packed.labels(3), (Labels{0, 1, 2}));
  expect_indexed_alike(o.out);
  expect_nothing_left(o.out);

  const PackedSummary summary = inspect_packed(o.out);
  EXPECT_TRUE(summary.label_lists);
  EXPECT_EQ(summary.class_records, (std::vector<std::uint64_t>{3, 3, 1}));
  EXPECT_EQ(summary.labels, 7u);
  EXPECT_EQ(summary.unlabeled, 2u);
  EXPECT_EQ(summary.most_labels, 3u);
  EXPECT_NE(summary.about.find("labels = \"any number for each image\""), std::string::npos);
  std::vector<Labels> listed;
  list_packed(o.out, [&](const PackedRecord& r) { listed.push_back(r.labels); });
  EXPECT_EQ(listed, (std::vector<Labels>{{}, {}, {0}, {0, 1, 2}, {0, 1}, {1}}));
}

TEST_F(PackedLists, TheFingerprintKnowsLabels) {
  const auto fingerprint = [&](const std::string& table) {
    const PackOptions o = with_table(table);
    pack(o);
    return PackedFiles({o.out}).fingerprint();
  };
  const std::string rest = "a b/1.png\na/2.JPEG\tcat\na/3.x.jpg\nc/4.jpg\tdog\n";
  const std::uint64_t before = fingerprint(rest + "b.jpg\tcat\na.jpg\n");
  EXPECT_EQ(fingerprint("b.jpg\tcat\na.jpg\n" + rest), before);
  EXPECT_NE(fingerprint(rest + "b.jpg\tdog\na.jpg\n"), before);
  EXPECT_NE(fingerprint(rest + "b.jpg\na.jpg\tcat\n"), before);
}

// And can be given to the task `classification`.
TEST_F(PackedLists, OneLabelEachIsWhatOlderProgramsRead) {
  const PackOptions o = with_table(
      "b.jpg\tcat\na b/1.png\tdog\na/2.JPEG\tcat\na/3.x.jpg\tcat\na.jpg\tdog\nc/4.jpg\tcat\n");
  EXPECT_FALSE(pack(o).label_lists);
  EXPECT_EQ(version(o.out), 1);
  const PackedFiles packed({o.out});
  EXPECT_FALSE(packed.label_lists());
  EXPECT_EQ(packed.labels(0), Labels{1});
  const Bytes tar = read_file(o.out);
  EXPECT_NE(as_text(tar).find("a/2.cls"), std::string::npos);
  EXPECT_EQ(as_text(tar).find("cls.json"), std::string::npos);
  expect_indexed_alike(o.out);
}

// Where images with another number of labels are bad, one label each is left.
TEST_F(PackedLists, ABadImageTakesItsLabelsWithIt) {
  add("a b/1.png", as_bytes("damaged"));
  add("b.jpg", {});
  PackOptions o = with_table(kTable);
  EXPECT_EQ(pack(o).bad, 2u);
  const PackedFiles packed({o.out});
  ASSERT_EQ(packed.size(), 4u);
  EXPECT_EQ(packed.labels(0), Labels{});
  EXPECT_EQ(packed.labels(2), (Labels{0, 1, 2}));
  expect_indexed_alike(o.out);
  o = with_table(
      "a b/1.png\nb.jpg\tcat,dog\na/2.JPEG\tcat\na/3.x.jpg\tdog\na.jpg\tcat\nc/4.jpg\tdog\n");
  pack(o);
  EXPECT_EQ(version(o.out), 1);
  expect_indexed_alike(o.out);
}

TEST_F(PackedLists, ATarWithATable) {
  Members members;
  for (const char* name : {"c/4.jpg", "b.jpg", "a/2.JPEG"})
    members.emplace_back(std::string("./set/") + name, read_file(source.path(name)));
  members.emplace_back("other/9.jpg", image("gray.jpg"));
  write_bytes(folder.path("in.tar"), make_tar(members));
  PackOptions o = with_table("a/2.JPEG\nb.jpg\tcat,dog\nc/4.jpg\tdog\n");
  o.sources = {folder.path("in.tar")};
  refused(o, {folder.path("in.tar") + ": set/c/4.jpg has no line in " + o.label_table});
  o.below = "set";
  o.classes = text("classes.txt", "bird\ndog\ncat\n");
  EXPECT_EQ(pack(o).labels, 3u);
  const PackedFiles packed({o.out});
  EXPECT_EQ(packed.classes(), (std::vector<std::string>{"bird", "dog", "cat"}));
  EXPECT_EQ(packed.labels(0), Labels{1});
  EXPECT_EQ(packed.labels(1), (Labels{1, 2}));
  EXPECT_EQ(packed.labels(2), Labels{});

  // Packed once more, without a table.
  PackOptions again = options("again.tar");
  again.keep = true;
  again.sources = {o.out};
  pack(again);
  expect_same(packed, PackedFiles({again.out}));
  again.limit = 1;
  again.overwrite = true;
  EXPECT_FALSE(pack(again).label_lists);
  expect_indexed_alike(again.out);
}

TEST_F(PackedLists, WrongTables) {
  const std::string rest = "a b/1.png\na/2.JPEG\tcat\na/3.x.jpg\tdog\nc/4.jpg\n";
  const std::string table = folder.path("labels.tsv");
  refused(with_table(rest + "a.jpg\n"),
          {source.path() + ": b.jpg has no line in " + table + "; for an image without labels"});
  refused(with_table(rest + "a.jpg\nb.jpg\nz.jpg\tcat\n"),
          {table + ": line 7: 'z.jpg' is no picture in " + source.path()});
  refused(with_table(rest + "a.jpg\nb.jpg\tcat,cat\n"), {table + ": line 6", "'cat' twice"});
  PackOptions o = with_table(rest + "a.jpg\nb.jpg\n");
  o.labels = o.label_table;
  refused(o, {"--labels and --label-table"});
  o.labels = "";
  o.classes = text("classes.txt", "dog\n");
  refused(o, {table + ": line 2 has the class 'cat', which is not among the 1 of", o.classes});
  o.sources = {test::source_folder() + "/data/mnist/t10k-images-idx3-ubyte.gz"};
  refused(o, {"--label-table is for a folder or a tar"});
  // Pictures that the folder's own reader passes over need no line; with one they are packed.
  add("a/5.webp", image("large_alpha.webp"));
  o = with_table(kTable);
  EXPECT_EQ(pack(o).others, 1u);
  o = with_table(std::string(kTable) + "a/5.webp\tdog\n");
  EXPECT_EQ(pack(o).bad, 1u);  // as --keep can't store it
}

TEST_F(PackedLists, AnInterruptedRunIsGoneOnWith) {
  std::string table = kTable;
  for (int i = 0; i < 60; ++i) {
    add("d/" + std::to_string(i) + ".jpg", image(i % 2 == 0 ? "gray.jpg" : "color420.jpg"));
    table += "d/" + std::to_string(i) + ".jpg\t" +
             (i % 3 == 0   ? ""
              : i % 3 == 1 ? "cat"
                           : "cat,dog") +
             "\n";
  }
  const PackOptions whole = with_table(table, "whole.tar");
  pack(whole);
  PackOptions part = with_table(table, "part.tar");
  part.overwrite = false;
  struct Stop {};
  part.tell = [](const PackProgress& p) {
    if (p.done == 40) throw Stop();
  };
  EXPECT_THROW(pack(part), Stop);
  part.tell = {};
  EXPECT_GT(pack(part).resumed, 30u);
  EXPECT_EQ(read_file(part.out), read_file(whole.out));
  EXPECT_EQ(read_file(part.out + ".index"), read_file(whole.out + ".index"));
  // Other labels are another packing.
  part.overwrite = true;
  part.tell = [](const PackProgress& p) {
    if (p.done == 40) throw Stop();
  };
  EXPECT_THROW(pack(part), Stop);
  fs::remove(part.out);
  table.replace(table.find("b.jpg\tdog,cat"), 13, "b.jpg\tdog    ");
  part.overwrite = false;
  text("labels.tsv", table);
  refused(part, {"left of packing other sources"});
}

// Tars of others, which hold lists beside the images.
TEST_F(PackedLists, MembersBesideTheImages) {
  const std::string tar = folder.path("a.tar");
  const Bytes picture = image("gray.jpg");
  const auto indexed = [&](const Members& members) {
    write_bytes(tar, make_tar(members));
    return index_tar(tar);
  };
  const Members good = {{"x/1.jpg", picture},
                        {"x/1.cls.json", as_bytes(" [ 3,\t0 ]\r\n")},
                        {"x/2.cls", as_bytes("1")},
                        {"x/2.jpg", picture},
                        {"x/3.cls.JSON", as_bytes("[]")},
                        {"x/3.png", image("pattern.png")}};
  const IndexTarResult result = indexed(good);
  EXPECT_EQ(result.labels, 3u);
  EXPECT_TRUE(result.label_lists);
  EXPECT_EQ(result.classes, 4u);
  EXPECT_EQ(result.others, 0u);
  const PackedFiles set({tar});
  EXPECT_EQ(set.labels(0), (Labels{0, 3}));
  EXPECT_EQ(set.labels(1), Labels{1});
  EXPECT_EQ(set.labels(2), Labels{});
  EXPECT_EQ(set.label(2), -1);
  const auto refused_with = [&](std::size_t member, const std::string& content,
                                const std::vector<std::string>& parts) {
    Members members = good;
    members[member].second = as_bytes(content);
    expect_error<UsageError>([&] { indexed(members); }, parts);
  };
  for (const char* wrong : {"", "3", "[3", "[3,]", "[,3]", "[-1]", "[1.5]", "[3] 4", "[\"cat\"]",
                            "[4294967296]", "[[3]]", "[3 0]", "[0, 3, 0]", "{}"})
    refused_with(1, wrong, {tar + ": x/1.cls.json holds", "no list of labels"});
  refused_with(2, "1, 2", {tar + ": x/2.cls holds '1, 2'", "KEY.cls.json"});
  refused_with(1, "[16777216]", {"a label of 16777216, and no names"});
  Members members = good;
  members[2] = {"x/1.cls", as_bytes("1")};
  expect_error<UsageError>([&] { indexed(members); }, {tar + ": x/1.cls is the second"});
  members[2] = {"x/notes.txt", as_bytes("1")};
  expect_error<UsageError>([&] { indexed(members); }, {"x/2.jpg has no .cls member"});
  expect_error<UsageError>(
      [&] {
        indexed({{"x/1.jpg", picture}, {"x/1.cls.json", as_bytes("[]")}});
      },
      {tar + ": no image has a label", "--classes"});
  members = good;
  members.insert(members.begin(), {"__convoy__/classes.txt", as_bytes("a\nb\nc\n")});
  expect_error<UsageError>([&] { indexed(members); }, {"x/1.jpg has the label 3; there are 3"});
}

TEST_F(PackedLists, FilesWithAndWithoutListsAreOneDataSet) {
  const std::string first = folder.path("1.tar"), second = folder.path("2.tar");
  const Bytes names = as_bytes("cat\ndog\n"), picture = image("gray.jpg");
  write_bytes(
      first,
      make_tar({{"__convoy__/classes.txt", names}, {"1.jpg", picture}, {"1.cls", as_bytes("1")}}));
  write_bytes(second, make_tar({{"__convoy__/classes.txt", names},
                                {"2.jpg", picture},
                                {"2.cls.json", as_bytes("[0, 1]")}}));
  index_tar(first);
  index_tar(second);
  EXPECT_EQ(version(first), 1);
  EXPECT_FALSE(PackedFiles({first}).label_lists());
  const PackedFiles both({first, second});
  EXPECT_TRUE(both.label_lists());
  EXPECT_EQ(both.labels(0), Labels{1});
  EXPECT_EQ(both.labels(1), (Labels{0, 1}));
}

TEST_F(PackedLists, VerificationFindsEveryFlippedBitOfTheIndex) {
  const PackOptions o = with_table(kTable);
  pack(o);
  const Bytes good = read_file(o.out + ".index");
  for (std::size_t at = 0; at < good.size(); at += 3) {
    Bytes bad = good;
    bad[at] ^= static_cast<std::byte>(1u << (at % 8));
    write_bytes(o.out + ".index", bad);
    const VerifyResult result = verify_packed(o.out);
    ASSERT_EQ(result.problems.size(), 1u) << at;
    EXPECT_EQ(result.problems[0].where, "index");
  }
  write_bytes(o.out + ".index", std::span(good).first(good.size() - 10));
  EXPECT_EQ(verify_packed(o.out).problems.at(0).where, "index");
}

// Each sample of three epochs, in parts that are shuffled among ranks.
TEST_F(PackedLists, LabelsGoWithTheirRecordsInAStore) {
  std::string table = kTable;
  for (int i = 0; i < 30; ++i) {
    add("d/" + std::to_string(i) + ".jpg", image(i % 2 == 0 ? "gray.jpg" : "color420.jpg"));
    table += "d/" + std::to_string(i) + ".jpg" +
             (i % 3 == 0   ? ""
              : i % 3 == 1 ? "\tcat"
                           : "\tcat,dog") +
             "\n";
  }
  const PackOptions o = with_table(table);
  pack(o);
  const auto images = from_folder();
  const auto packed = std::make_shared<PackedFiles>(std::vector<std::string>{o.out});
  TransformOptions transform;
  transform.crop = Crop::center;
  transform.resize = transform.height = transform.width = 8;
  transform.channels = 1;
  LoaderOptions loader;
  loader.batch = 7;
  for (const auto& [world, groups] : {std::pair{1, 1}, {2, 1}, {3, 1}, {4, 2}}) {
    std::mutex mutex;
    std::vector<int> used(images->size());
    run_ranks(world, [&, groups = groups, world = world](Peers& peers) {
      StoreOptions options;
      options.groups = groups;
      options.host_memory = std::uint64_t{1} << 30;
      options.check = true;
      const auto store = std::make_shared<Store>(packed, peers, options);
      LoaderOptions mine = loader;
      mine.rank = peers.rank();
      mine.world = world;
      StoreSource batches(store, transform, mine, {.every_epochs = 1, .every_steps = 2});
      for (int epoch = 0; epoch < 3; ++epoch) {
        while (const Batch* batch = batches.next()) {
          const std::lock_guard lock(mutex);
          ASSERT_EQ(batch->label_lists.size(), batch->size());
          for (std::size_t k = 0; k < batch->size(); ++k) {
            const std::size_t i = batch->samples[k];
            EXPECT_TRUE(store->holds(i));
            EXPECT_EQ(batch->label_lists[k], images->labels(i)) << images->key(i);
            ++used[i];
          }
        }
      }
    });
    EXPECT_EQ(used, std::vector<int>(images->size(), 3)) << world << " ranks";
  }
}

}  // namespace
}  // namespace convoy::data
