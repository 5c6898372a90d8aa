#include "convoy/data/speech.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "convoy/data/loader.h"
#include "data/sound/filter_bank.h"
#include "data/sound/wav.h"
#include "tests/data/wav_support.h"

namespace convoy::data {
namespace {

constexpr std::size_t kFilters = 12;

class Speech : public testing::Test {
 protected:
  void SetUp() override {
    add("no_ann_0.wav", 300, 200 + 4 * 80);  // 5 frames
    add("no_ann_7.wav", 500, 200 + 9 * 80 + 79);
    add("yes_bob_x_3.WAV", 900, 200);
    add("yes_ann_12.wav", 1500, 200 + 80);
    std::ofstream(folder.path("notes.txt")) << "not a recording";
    std::ofstream(folder.path(".hidden_1.wav")) << "not a recording";
    std::filesystem::create_directory(folder.path("dir_1.wav"));
  }
  void add(const std::string& name, double hz, std::size_t samples, int rate = 8000) {
    write_bytes(folder.path(name), wav(tone(hz, samples, rate), rate));
  }
  SpeechOptions options() const {
    SpeechOptions o;
    o.recordings.folder = o.reference.folder = folder.path();
    o.filter_bank.filters = kFilters;
    o.states = 3;
    o.context = 2;
    return o;
  }
  std::vector<float> values(const Dataset& set, std::size_t i) {
    const Record record = set.read(i, scratch);
    EXPECT_EQ(record.encoding, Encoding::planar_f32);
    std::vector<float> found(record.bytes.size() / sizeof(float));
    std::memcpy(found.data(), record.bytes.data(), record.bytes.size());
    return found;
  }
  std::vector<float> energies(const std::string& name) {
    FilterBank bank(options().filter_bank, 8000);
    return bank.energies(parse_wav(read_file(folder.path(name)), name).samples);
  }
  void refused(const SpeechOptions& o, const std::vector<std::string>& parts) {
    expect_error<UsageError>([&] { open_speech(o); }, parts);
  }

  Scratch folder;
  Bytes scratch;
};

TEST_F(Speech, FramesInTheOrderOfFilesAndOfTime) {
  const auto set = open_speech(options());
  ASSERT_EQ(set->size(), 5u + 10 + 2 + 1);
  EXPECT_EQ(set->classes(),
            (std::vector<std::string>{"no.0", "no.1", "no.2", "yes.0", "yes.1", "yes.2"}));
  EXPECT_EQ(set->key(0), folder.path("no_ann_0.wav[0]"));
  EXPECT_EQ(set->key(5), folder.path("no_ann_7.wav[0]"));
  EXPECT_EQ(set->key(14), folder.path("no_ann_7.wav[9]"));
  EXPECT_EQ(set->key(16), folder.path("yes_ann_12.wav[1]"));
  EXPECT_EQ(set->key(17), folder.path("yes_bob_x_3.WAV[0]"));
  // floor(t * 3 / T)
  const std::vector<std::int64_t> labels = {0, 0, 1, 1, 2, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 3};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    EXPECT_EQ(set->label(i), labels[i]) << i;
    const Record record = set->read(i, scratch);
    EXPECT_EQ(record.label, labels[i]);
    EXPECT_EQ(record.shape, (Shape{1, 5, kFilters}));
    EXPECT_EQ(record.bytes.size(), record.shape.elements() * sizeof(float));
  }
  EXPECT_TRUE(scratch.empty());
}

TEST_F(Speech, AWordOfOneStateIsItsClass) {
  SpeechOptions o = options();
  o.states = 1;
  const auto set = open_speech(o);
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(set->label(14), 0);
  EXPECT_EQ(set->label(15), 1);
}

TEST_F(Speech, FewerFramesThanStates) {
  SpeechOptions o = options();
  o.states = 8;
  o.recordings.numbers = {{0, 0}};
  const auto set = open_speech(o);
  const std::vector<std::int64_t> labels = {0, 1, 3, 4, 6};  // floor(t * 8 / 5)
  ASSERT_EQ(set->size(), labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i) EXPECT_EQ(set->label(i), labels[i]);
}

// Mean and deviation of the reference, and the frames around, of which the first and the last stand
// for those that are not there.
TEST_F(Speech, ContextAndNormalization) {
  SpeechOptions o = options();
  o.reference.numbers = {{3, 12}};
  o.recordings.numbers = {{0, 0}};
  const auto set = open_speech(o);
  ASSERT_EQ(set->size(), 5u);
  std::vector<float> all;
  for (const char* name : {"no_ann_7.wav", "yes_ann_12.wav", "yes_bob_x_3.WAV"}) {
    const std::vector<float> some = energies(name);
    all.insert(all.end(), some.begin(), some.end());
  }
  const std::vector<float> mine = energies("no_ann_0.wav");
  const double count = static_cast<double>(all.size() / kFilters);
  ASSERT_EQ(count, 13);
  for (std::size_t m = 0; m < kFilters; ++m) {
    double mean = 0, square = 0;
    for (std::size_t i = m; i < all.size(); i += kFilters) mean += all[i] / count;
    for (std::size_t i = m; i < all.size(); i += kFilters)
      square += (all[i] - mean) * (all[i] - mean) / count;
    for (int t = 0; t < 5; ++t) {
      const std::vector<float> found = values(*set, static_cast<std::size_t>(t));
      for (int d = 0; d < 5; ++d) {
        const auto at = static_cast<std::size_t>(std::clamp(t + d - 2, 0, 4));
        EXPECT_NEAR(found[static_cast<std::size_t>(d) * kFilters + m],
                    (mine[at * kFilters + m] - mean) / std::sqrt(square), 1e-4);
      }
    }
  }
}

// Training and evaluation see the same numbers of a frame.
TEST_F(Speech, TheReferenceDecides) {
  SpeechOptions o = options();
  const auto all = open_speech(o);
  o.recordings.numbers = {{7, 7}};
  const auto some = open_speech(o);
  EXPECT_EQ(some->classes(), all->classes());
  ASSERT_EQ(some->size(), 10u);
  for (std::size_t i = 0; i < some->size(); ++i) {
    EXPECT_EQ(values(*some, i), values(*all, i + 5));
    EXPECT_EQ(some->label(i), all->label(i + 5));
  }
}

TEST_F(Speech, TheFingerprintKnowsSoundsNamesAndOptions) {
  const auto fingerprint = [](const SpeechOptions& o) { return open_speech(o)->fingerprint(); };
  const std::uint64_t before = fingerprint(options());
  EXPECT_EQ(fingerprint(options()), before);
  SpeechOptions o = options();
  o.states = 4;
  EXPECT_NE(fingerprint(o), before);
  o = options();
  o.context = 3;
  EXPECT_NE(fingerprint(o), before);
  o = options();
  o.filter_bank.preemphasis = 0.9;
  EXPECT_NE(fingerprint(o), before);
  // The same folder by another name.
  o = options();
  o.recordings.folder = folder.path(".");
  EXPECT_EQ(fingerprint(o), before);
  o = options();
  o.recordings.numbers = {{0, 7}};
  const std::uint64_t part = fingerprint(o);
  EXPECT_NE(part, before);
  add("yes_ann_12.wav", 1501, 200 + 80);  // not among them, but in the reference
  EXPECT_NE(fingerprint(o), part);
  const std::uint64_t changed = fingerprint(options());
  EXPECT_NE(changed, before);
  std::filesystem::rename(folder.path("no_ann_0.wav"), folder.path("yes_aaa_0.wav"));
  EXPECT_NE(fingerprint(options()), changed);
}

// Ranks divide frames as they divide images.
TEST_F(Speech, BatchesOfTwoRanks) {
  const std::shared_ptr<Dataset> set = open_speech(options());
  std::vector<int> seen(set->size());
  for (int rank = 0; rank < 2; ++rank) {
    LoaderOptions options;
    options.batch = 4;
    options.rank = rank;
    options.world = 2;
    options.threads = 3;
    Loader loader(set, TransformOptions(), options);
    while (const Batch* batch = loader.next()) {
      EXPECT_EQ(batch->shape, (Shape{1, 5, kFilters}));
      for (std::size_t i = 0; i < batch->size(); ++i) {
        const std::vector<float> want = values(*set, batch->samples[i]);
        const std::span<const float> found =
            std::span<const float>(batch->images).subspan(i * want.size(), want.size());
        EXPECT_TRUE(std::equal(want.begin(), want.end(), found.begin()));
        EXPECT_EQ(batch->labels[i], set->label(batch->samples[i]));
        ++seen[batch->samples[i]];
      }
    }
  }
  EXPECT_EQ(seen, std::vector<int>(set->size(), 1));
}

TEST_F(Speech, ErrorsNameTheFileAndTheProblem) {
  SpeechOptions o = options();
  o.recordings.folder = folder.path("nothing");
  refused(o, {folder.path("nothing"), host_name(), "No such file"});
  o = options();
  o.recordings.numbers = {{100, 200}};
  refused(o, {folder.path(), "no .wav file of a number from 100 to 200"});
  o = options();
  o.reference.numbers = {{0, 7}};
  o.recordings.numbers = {{0, 12}};
  EXPECT_EQ(open_speech(o)->size(), 18u);
  o.reference.numbers = {{0, 0}};
  refused(o, {folder.path("yes_ann_12.wav"), "no recording of the word 'yes'"});
  add("no_ann_1.wav", 300, 199);
  refused(options(), {folder.path("no_ann_1.wav"), "199 samples", "200 of a frame"});
  add("no_ann_1.wav", 300, 1000, 16000);
  refused(options(), {folder.path("no_ann_1.wav"), "16000 samples per second",
                      folder.path("no_ann_0.wav") + " has 8000"});
  write_bytes(folder.path("no_ann_1.wav"), to_bytes({1, 2, 3}));
  refused(options(), {folder.path("no_ann_1.wav"), "not a WAV file"});
  std::filesystem::remove(folder.path("no_ann_1.wav"));
  // A link to a disk that is not there is no recording less.
  std::filesystem::create_symlink(folder.path("nothing.wav"), folder.path("no_ann_1.wav"));
  refused(options(), {folder.path("no_ann_1.wav"), "No such file"});
  std::filesystem::remove(folder.path("no_ann_1.wav"));
  add("no.wav", 300, 400);
  EXPECT_EQ(open_speech(options())->classes().size(), 6u);  // a word without a number
  o = options();
  o.recordings.numbers = {{0, 7}};
  refused(o, {folder.path("no.wav"), "no number", "WORD_..._NUMBER.wav"});
  std::filesystem::remove(folder.path("no.wav"));
  add("12.wav", 300, 400);
  refused(o, {folder.path("12.wav"), "no number"});
  add("_1.wav", 300, 400);
  refused(options(), {folder.path("_1.wav"), "without a word"});
}

TEST_F(Speech, OptionsThatMakeNoSense) {
  const auto with = [&](auto change) {
    SpeechOptions o = options();
    change(o);
    return o;
  };
  refused(with([](SpeechOptions& o) { o.states = 0; }), {"states is 0", "1 to 8192"});
  refused(with([](SpeechOptions& o) { o.context = -1; }), {"context is -1"});
  refused(with([](SpeechOptions& o) { o.filter_bank.filters = 0; }), {"0 filters"});
  refused(with([](SpeechOptions& o) { o.filter_bank.high_hz = 5000; }), {"5000 Hz"});
}

// No file is read.
TEST_F(Speech, WordsOfMoreThanAMillionClasses) {
  Scratch many;
  for (int i = 0; i < 123; ++i) write_bytes(many.path("w" + std::to_string(i) + "_1.wav"), {});
  SpeechOptions o = options();
  o.recordings.folder = o.reference.folder = many.path();
  o.states = 8192;
  refused(o, {"123 words of 8192 states", "1000000 classes"});
}

TEST_F(Speech, SilenceCannotBeNormalized) {
  Scratch silent;
  write_bytes(silent.path("no_1.wav"), wav(std::vector<int>(400, 0)));
  SpeechOptions o = options();
  o.recordings.folder = o.reference.folder = silent.path();
  refused(o, {"same energy in all frames of filter 0", "silent"});
}

}  // namespace
}  // namespace convoy::data
