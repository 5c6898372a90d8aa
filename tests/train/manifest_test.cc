#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "tests/train/checkpoint_samples.h"

namespace convoy::train {
namespace {

using Json = nlohmann::ordered_json;
using test::message_of;

// The text with a right checksum, as a program that writes other members would make it.
std::string sealed(const Json& json) {
  std::string text = json.dump(2);
  text.resize(text.size() - 2);
  const std::uint64_t hash = xxh3(std::as_bytes(std::span(text)));
  return text + ",\n  \"xxh3\": \"" + to_hex(hash) + "\"\n}\n";
}

Json members() {
  Manifest manifest = sample_manifest(5);
  manifest.files["part-0.safetensors"] = {100, 20, 11};
  manifest.tensors = {{TensorGroup::model,
                       "fc.weight",
                       "F32",
                       {2, 3},
                       {{"part-0.safetensors", {0, 0}, {1, 3}, 20, 5},
                        {"part-0.safetensors", {1, 0}, {1, 3}, 32, 6}}},
                      {TensorGroup::optimizer, "none", "I64", {0}, {}},
                      {TensorGroup::rank,
                       "3/steps",
                       "I64",
                       {},
                       {{"part-0.safetensors", {}, {}, 12, std::nullopt}}}};
  Json json = Json::parse(to_json(manifest));
  json.erase("xxh3");
  return json;
}

std::string manifest_refusal(const std::string& text) {
  return message_of<UsageError>([&] { manifest_from_json(text, "M"); });
}

TEST(Manifest, RoundTrip) {
  Manifest manifest = sample_manifest(1200);
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  manifest.files["part-0.safetensors"] = {kMost, kMost, kMost};
  manifest.tensors = {
      {TensorGroup::model, "w", "F64", {2, 1}, {{"part-0.safetensors", {0, 0}, {2, 1}, 8, kMost}}}};
  EXPECT_EQ(manifest_from_json(to_json(manifest), "M"), manifest);
  manifest.score = 0.751;
  manifest.measured_on = kMost;
  EXPECT_EQ(manifest_from_json(to_json(manifest), "M"), manifest);
  EXPECT_TRUE(std::signbit(manifest_from_json(to_json(manifest), "M").numbers["negative zero"]));
  manifest.numbers["nan"] = std::nan("");
  EXPECT_TRUE(std::isnan(manifest_from_json(to_json(manifest), "M").numbers["nan"]));
  EXPECT_EQ(manifest_from_json(to_json(Manifest{}), "M"), Manifest{});
}

TEST(Manifest, TextsThatAreNoUtf8AreKeptReadable) {
  Manifest manifest = sample_manifest(1);
  manifest.classes = {"caf\xe9"};
  EXPECT_EQ(manifest_from_json(to_json(manifest), "M").classes[0], "caf\ufffd");
}

// A tensor's entry that is wrong is named.
TEST(Manifest, SlicesHoldEveryElementOnce) {
  const auto message = [](const char* pointer, const Json& value) {
    Json json = members();
    json["tensors"][0][Json::json_pointer(pointer)] = value;
    return manifest_refusal(sealed(json));
  };
  const std::string where = "M: tensors[0] (fc.weight)";
  EXPECT_EQ(message("/slices/1/begin", {0, 0}),
            where + ": two hold elements of fc.weight[0:1, :] of [2, 3]");
  EXPECT_EQ(message("/slices/1/size", {1, 2}),
            where + ": nobody holds fc.weight[1:2, 2:3] of [2, 3]");
  EXPECT_NE(message("/slices/1/size", {2, 3}).find("can't begin at [1, 0]"), std::string::npos);
  EXPECT_NE(message("/slices/1/size", Json::array({1})).find("fc.weight"), std::string::npos);
  EXPECT_NE(message("/shape", {3, 3}).find(where), std::string::npos);
  EXPECT_NE(message("/shape", {2, std::uint64_t{1} << 63}).find(where), std::string::npos);
  EXPECT_NE(message("/shape", {std::uint64_t{1} << 40, std::uint64_t{1} << 40}).find("fc.weight"),
            std::string::npos);
  EXPECT_NE(message("/type", "F33").find("there is no type 'F33'"), std::string::npos);
  EXPECT_EQ(message("/group", "models"), where + ".group must be model, optimizer or rank");
  EXPECT_EQ(message("/slices/0/file", "other"),
            where + ".slices[0].file must be one of the manifest's files");
  const std::string end = where + ".slices[1].offset must be so that the slice ends in its file";
  EXPECT_EQ(message("/slices/1/offset", 89), end);
  EXPECT_EQ(message("/slices/1/offset", ~std::uint64_t{0}), end);
  EXPECT_EQ(message("/slices/1/offset", 88), "");
  EXPECT_EQ(message("/slices/1/xxh3", nullptr), end);  // nothing covers it
  Json twice = members();
  twice["tensors"].push_back(twice["tensors"][2]);
  EXPECT_EQ(
      manifest_refusal(sealed(twice)),
      "M: tensors[3] (3/steps) must be behind the one before it, by group and name, and there "
      "once");
  Json beyond = members();
  beyond["files"]["part-0.safetensors"]["hashed"] = 101;
  EXPECT_EQ(manifest_refusal(sealed(beyond)),
            "M: files.part-0.safetensors.hashed must be at most its bytes");
}

TEST(Manifest, BytesBelongToOneSlice) {
  const auto message = [](const char* pointer, const Json& value) {
    Json json = members();
    json["tensors"][Json::json_pointer(pointer)] = value;
    return manifest_refusal(sealed(json));
  };
  const std::string fc = "tensors[0] (fc.weight)", steps = "tensors[2] (3/steps)",
                    end = " of part-0.safetensors; slices must be apart";
  EXPECT_EQ(message("/0/slices/1/offset", 31),
            "M: " + fc + " and " + fc + " both have byte 31" + end);
  EXPECT_EQ(message("/0/slices/1/offset", 20),
            "M: " + fc + " and " + fc + " both have byte 20" + end);
  EXPECT_EQ(message("/0/slices/1/offset", 33), "");
  EXPECT_EQ(message("/0/slices/0/offset", 19),
            "M: " + steps + " and " + fc + " both have byte 19" + end);
  EXPECT_EQ(message("/2/slices/0/offset", 11), "");
}

TEST(Manifest, DimensionsAreBounded) {
  const auto message = [](std::size_t dimensions) {
    Json json = members();
    Json& tensor = json["tensors"][2];
    tensor["shape"] = std::vector<int>(dimensions, 1);
    tensor["slices"][0]["begin"] = std::vector<int>(dimensions, 0);
    tensor["slices"][0]["size"] = std::vector<int>(dimensions, 1);
    return manifest_refusal(sealed(json));
  };
  EXPECT_EQ(message(64), "");
  EXPECT_EQ(message(65), "M: tensors[2] (3/steps).shape must be of at most 64 dimensions");
}

// What fuzzing starts from gets as far as it is meant to.
TEST(Manifest, SeedsOfThisFormatAreReadAsFarAsTheyAreRight) {
  const auto said = [](const char* name) {
    return manifest_refusal(
        test::slurp(test::source_folder() + "/tests/fuzz/corpus/manifest/" + name));
  };
  EXPECT_EQ(said("slices"), "");
  EXPECT_NE(said("overlapping").find(" both have byte 230 of part-0"), std::string::npos);
  EXPECT_NE(said("dimensions").find(" at most 64 dimensions"), std::string::npos);
}

// In time that doesn't grow with the square of their number, which would be minutes here.
TEST(Manifest, ATensorMayBeInVeryManySlices) {
  constexpr int kRows = 200, kColumns = 100;
  Json json = members();
  json["files"]["part-0.safetensors"]["bytes"] = 4 * kRows * kColumns + 100;
  Json& tensor = json["tensors"][0];
  tensor["shape"] = {kRows, kColumns};
  Json slices = Json::array();
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      slices.push_back({{"file", "part-0.safetensors"},
                        {"begin", {row, column}},
                        {"size", {1, 1}},
                        {"offset", 4 * (row * kColumns + column) + 20},
                        {"xxh3", "0000000000000005"}});
    }
  }
  tensor["slices"] = slices;
  EXPECT_EQ(manifest_refusal(sealed(json)), "");
  tensor["slices"][7777]["begin"][1] = 3;
  EXPECT_EQ(manifest_refusal(sealed(json)),
            "M: tensors[0] (fc.weight): its 20000 slices don't hold every element of fc.weight "
            "[200, 100] once");
}

TEST(Manifest, EveryFlippedBitAndEveryTruncationIsRefused) {
  const std::string text = to_json(sample_manifest(1));
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    ASSERT_NE(manifest_refusal(changed), "") << bit;
  }
  for (std::size_t size = 0; size < text.size(); ++size) {
    ASSERT_NE(manifest_refusal(text.substr(0, size)), "") << size;
  }
  EXPECT_NE(manifest_refusal(text + "\n"), "");
  EXPECT_NE(manifest_refusal("\n" + text), "");
}

TEST(Manifest, UnknownKeysAreIgnoredAndNewerFormatsRefused) {
  Json json = members();
  json["later"] = {{"a", 1}};
  EXPECT_EQ(manifest_refusal(sealed(json)), "");
  json["format"] = 3;
  EXPECT_EQ(manifest_refusal(sealed(json)),
            "M has the format 3, this Convoy reads up to 2: use a newer one");
  // Whatever checksum the newer format has.
  EXPECT_EQ(manifest_refusal(json.dump()),
            "M has the format 3, this Convoy reads up to 2: use a newer one");
  json["format"] = 0;
  EXPECT_NE(manifest_refusal(sealed(json)).find("format must be"), std::string::npos);
}

TEST(Manifest, SaysWhichKeyIsMissing) {
  const Json all = members();
  for (const auto& item : all.items()) {
    Json json = members();
    json.erase(item.key());
    // Which earlier versions don't have.
    const bool needed = item.key() != "metric" && item.key() != "measured_on";
    EXPECT_EQ(manifest_refusal(sealed(json)),
              needed ? "M: the key " + item.key() + " is missing" : "");
  }
}

TEST(Manifest, SaysWhichKeyIsWrong) {
  const auto message = [](const char* pointer, const Json& value) {
    Json json = members();
    json[Json::json_pointer(pointer)] = value;
    return manifest_refusal(sealed(json));
  };
  const Json all = members();
  for (const auto& item : all.items()) {
    const std::string said = message(("/" + item.key()).c_str(), true);
    EXPECT_NE(said.find(item.key()), std::string::npos) << said;
  }
  EXPECT_EQ(message("/model", 1), "M: model must be a text");
  EXPECT_NE(message("/step", -1), "");
  EXPECT_NE(message("/step", 1.0), "");
  EXPECT_NE(message("/step", std::uint64_t{1} << 63), "");
  EXPECT_NE(message("/world", 0), "");
  EXPECT_NE(message("/world", std::int64_t{1} << 31), "");
  EXPECT_NE(message("/samples", -1), "");
  EXPECT_NE(message("/score", "best"), "");
  EXPECT_NE(message("/measured_on", "validation"), "");
  EXPECT_NE(message("/data_fingerprint", "12"), "");
  EXPECT_EQ(message("/numbers/third", "x"),
            "M: numbers.third must be a number, or one of the texts nan, inf and -inf");
  EXPECT_EQ(message("/lists/none", Json{1}), "M: lists.none[] must be a text");
  EXPECT_NE(message("/position/epoch", -1), "");
  EXPECT_NE(message("/position/consumed/0", Json{1}), "");
  EXPECT_NE(message("/position/consumed/0/1", -1), "");
  EXPECT_EQ(message("/position/consumed/1/0", 1199),
            "M: position.consumed must be ascending ranges that don't overlap");
  EXPECT_NE(message("/position/consumed/2/1", 1), "");
  EXPECT_NE(message("/files/part-0.safetensors/xxh3", "x"), "");
}

TEST(Manifest, FilesStayInTheirFolder) {
  for (const char* name : {"", ".", "..", "../x", "/etc/passwd", "a/b", "manifest.json"}) {
    Json json = members();
    json["files"][name] = {{"bytes", 1}, {"hashed", 1}, {"xxh3", to_hex(1)}};
    EXPECT_EQ(manifest_refusal(sealed(json)),
              "M: files must be names of files in the checkpoint's own folder")
        << name;
  }
}

TEST(Manifest, DeepNestingIsHarmless) {
  EXPECT_NE(manifest_refusal(std::string(500'000, '[')), "");
  EXPECT_NE(manifest_refusal(std::string(100'000, '[') + std::string(100'000, ']')), "");
}

}  // namespace
}  // namespace convoy::train
