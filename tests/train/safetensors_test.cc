#include "convoy/train/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "tests/base/scratch.h"
#include "train/checkpoint/preparation.h"

namespace convoy::train {
namespace {

using test::message_of;
using test::Scratch;
using test::slurp;
using test::spill;

// Bytes of any numbers, kept alive by the caller.
template <typename T>
std::string packed(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string golden_path() { return test::source_folder() + "/tests/golden/mixed.safetensors"; }

// A file with this header and so many bytes behind it.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\1');
}

std::string refusal(const std::string& file) {
  const std::vector<char> exact(file.begin(), file.end());
  return message_of<UsageError>(
      [&] { const SafetensorsFile parsed(std::as_bytes(std::span(exact)), "F"); });
}

TEST(Safetensors, WritesWhatTheReferenceWrites) {
  // As mixed() of tests/golden/check_safetensors.py.
  const std::vector<std::string> data = {
      packed<double>({0, 1, 2, 3, 4, 5}),
      packed<float>({0, 1, 2, 3, 4, 5}),
      packed<std::uint16_t>({0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500}),
      packed<std::int64_t>({0, 1, 2, 3, 4, 5}),
      packed<std::int32_t>({0, 1, 2, 3, 4, 5}),
      packed<std::int16_t>({0, 1, 2, 3, 4, 5}),
      packed<std::int8_t>({0, 1, 2, 3, 4, 5}),
      packed<std::uint8_t>({0, 1, 2, 3, 4, 5}),
      packed<std::uint8_t>({1, 0, 1}),
      packed<float>({1.5f, -2.25f}),
      packed<float>({0.5f}),
      "",
      packed<std::int64_t>({7})};
  const std::vector<TensorView> tensors = {
      {"f64", "F64", {2, 3}, bytes_of(data[0])},
      {"f32", "F32", {2, 3}, bytes_of(data[1])},
      {"f16", "F16", {2, 3}, bytes_of(data[2])},
      {"i64", "I64", {2, 3}, bytes_of(data[3])},
      {"i32", "I32", {2, 3}, bytes_of(data[4])},
      {"i16", "I16", {2, 3}, bytes_of(data[5])},
      {"i8", "I8", {2, 3}, bytes_of(data[6])},
      {"u8", "U8", {2, 3}, bytes_of(data[7])},
      {"bool", "BOOL", {3}, bytes_of(data[8])},
      {"another.f32", "F32", {2}, bytes_of(data[9])},
      {"scalar", "F32", {}, bytes_of(data[10])},
      {"empty", "F32", {0, 3}, {}},
      {"caf\u00e9 \"\\\n\x01\x7f", "I64", {1}, bytes_of(data[12])}};
  const Scratch scratch;
  const std::string path = scratch.path("mixed.safetensors");
  write_safetensors(path, tensors, {{"format", "pt"}});
  EXPECT_EQ(slurp(path), slurp(golden_path()));

  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorView& tensor : tensors) {
    const TensorView* found = file.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->type, tensor.type);
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_TRUE(std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(),
                           tensor.bytes.end()));
    const auto address = reinterpret_cast<std::uintptr_t>(found->bytes.data());
    EXPECT_EQ(address % size_of_type(tensor.type), 0u) << tensor.name;
  }
  EXPECT_EQ(file.find("none"), nullptr);
}

TEST(Safetensors, AnEmptyFileOfTensors) {
  const Scratch scratch;
  write_safetensors(scratch.path("empty"), {});
  EXPECT_EQ(slurp(scratch.path("empty")), file_of("{}      ", 0));
  EXPECT_TRUE(SafetensorsFile(scratch.path("empty")).tensors().empty());
}

TEST(Safetensors, ManyTensorsAreFoundByName) {
  const Scratch scratch;
  std::vector<TensorView> tensors;
  const std::string bytes(4, 'x');
  for (int i = 0; i < 5000; ++i) {
    tensors.push_back({"layer." + std::to_string(i), "F32", {1}, bytes_of(bytes)});
  }
  write_safetensors(scratch.path("many"), tensors);
  const SafetensorsFile file(scratch.path("many"));
  for (const TensorView& tensor : tensors) ASSERT_EQ(file.find(tensor.name)->name, tensor.name);
}

TEST(Safetensors, RefusesToWriteWhatIsWrong) {
  const Scratch scratch;
  const std::string path = scratch.path("file");
  const std::string four(4, 'x');
  const auto message = [&](const std::vector<TensorView>& tensors) {
    return message_of<UsageError>([&] { write_safetensors(path, tensors); });
  };
  const TensorView good{"a", "F32", {1}, bytes_of(four)};
  EXPECT_EQ(message({good, good}), path + ": tensor 'a' is there twice");
  EXPECT_EQ(message({{"a", "F32", {2}, bytes_of(four)}}),
            path + ": tensor 'a' has 4 bytes, its shape and type need 8");
  EXPECT_EQ(message({{"a", "F32", {-1}, bytes_of(four)}}),
            path + ": tensor 'a' has a negative or too large shape");
  EXPECT_NE(message({{"a", "F32", {1 << 30, 1 << 30, 4}, bytes_of(four)}}), "");
  EXPECT_NE(message({{"a", "f32", {1}, bytes_of(four)}}), "");
  EXPECT_NE(message({{"__metadata__", "F32", {1}, bytes_of(four)}}), "");
  EXPECT_EQ(message({{"\xff", "F32", {1}, bytes_of(four)}}),
            "the name or text '\xff' is not UTF-8");
  EXPECT_EQ(test::entries(scratch.path()), 0u);
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const Scratch scratch;
  const std::string golden = slurp(golden_path());
  for (std::size_t size = 0; size < golden.size(); ++size) {
    EXPECT_NE(refusal(golden.substr(0, size)), "") << size;
  }
  EXPECT_EQ(refusal(golden), "");
  EXPECT_NE(refusal(golden + '\0'), "");

  spill(scratch.path("short"), golden.substr(0, golden.size() - 1));
  const std::string message =
      message_of<UsageError>([&] { const SafetensorsFile file(scratch.path("short")); });
  EXPECT_NE(message.find(scratch.path("short")), std::string::npos) << message;
  EXPECT_NE(message.find("truncated"), std::string::npos) << message;
  spill(scratch.path("nothing"), "");
  EXPECT_THROW(SafetensorsFile(scratch.path("nothing")), UsageError);
  EXPECT_THROW(SafetensorsFile(scratch.path("none")), UsageError);
  EXPECT_THROW(SafetensorsFile(scratch.path()), UsageError);
}

struct Case {
  const char* header;
  std::size_t bytes;
  const char* problem;  // "" where the file is valid
};

TEST(Safetensors, EveryRule) {
  const std::vector<Case> cases = {
      {R"({})", 0, ""},
      {R"({}    )", 0, ""},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2, ""},
      {R"({"a":{"data_offsets":[0,2],"shape":[2],"dtype":"U8"},"__metadata__":{"k":"v"}})", 2, ""},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       2, ""},
      {"", 0, "begin with '{'"},
      {" {}", 0, "begin with '{'"},
      {"[]", 0, "begin with '{'"},
      {"{} x", 0, "not valid JSON"},
      {"{}{}", 0, "not valid JSON"},
      {"{", 0, "not valid JSON"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})", 2, "not valid JSON"},
      {R"({"a":1})", 0, "an object of objects"},
      {R"({"a":[]})", 0, "an object of objects"},
      {R"({"a":null})", 0, "null"},
      {R"({"a":{}})", 0, "needs dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[2]}})", 2, "needs dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"extra":1}})", 2, "'extra'"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 2, "twice"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "'a' twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"},
      {R"({"__metadata__":{"k":"v","k":"v"}})", 0, "twice"},
      {R"({"__metadata__":{"k":1}})", 0, "only texts"},
      {R"({"__metadata__":{"k":{"l":"m"}}})", 0, "only texts"},
      {R"({"__metadata__":"k"})", 0, "object"},
      {R"({"a":{"dtype":"U9","shape":[2],"data_offsets":[0,2]}})", 2, "no type 'U9'"},
      {R"({"a":{"dtype":8,"shape":[2],"data_offsets":[0,2]}})", 2, "number where none"},
      {R"({"a":{"dtype":"U8","shape":2,"data_offsets":[0,2]}})", 2, "number where none"},
      {R"({"a":{"dtype":"U8","shape":["2"],"data_offsets":[0,2]}})", 2, "text where none"},
      {R"({"a":{"dtype":"U8","shape":[[2]],"data_offsets":[0,2]}})", 2, "list where none"},
      {R"({"a":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}})", 2, "negative"},
      {R"({"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}})", 0, "negative"},
      {R"({"a":{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]}})", 2, "no 64-bit integer"},
      {R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,2]}})", 2,
       "no 64-bit integer"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,2]}})", 2,
       "too large"},
      {R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0,
       "too large"},
      {R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "too large"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0]}})", 2, "two data_offsets"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2,2]}})", 2, "number where none"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})", 2, "begins at 2"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "begins at 1"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,2]}})", 2, "need 1 bytes"},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 2, "truncated"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3, "follow the last tensor"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "begins at 1, but the one before it ends at 2"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3, "begins at 2, but the one before it ends at 1"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]}})", 1,
       "need 1 bytes"},
  };
  for (const Case& one : cases) {
    const std::string said = refusal(file_of(one.header, one.bytes));
    if (*one.problem == '\0') {
      EXPECT_EQ(said, "") << one.header;
    } else {
      EXPECT_NE(said.find(one.problem), std::string::npos) << one.header << "\n  " << said;
    }
  }
  EXPECT_NE(refusal(file_of(std::string("{}\0 ", 4), 0)).find("zero byte"), std::string::npos);
  EXPECT_NE(refusal(file_of("{\"\xff\":{}}", 0)).find("not valid JSON"), std::string::npos);
  std::string dimensions = "1";
  for (int i = 0; i < 64; ++i) dimensions += ",1";
  EXPECT_NE(refusal(file_of(R"({"a":{"dtype":"U8","shape":[)" + dimensions +
                                R"(],"data_offsets":[0,1]}})",
                            1))
                .find("64 dimensions"),
            std::string::npos);
}

TEST(Safetensors, HeadersThatClaimTooMuch) {
  std::string file = file_of("{}", 0);
  for (const std::uint64_t length : {std::uint64_t{3}, std::uint64_t{100'000'000}}) {
    std::memcpy(file.data(), &length, 8);
    EXPECT_NE(refusal(file).find("ends inside its header"), std::string::npos) << length;
  }
  for (const std::uint64_t length : {std::uint64_t{100'000'001}, ~std::uint64_t{0}}) {
    std::memcpy(file.data(), &length, 8);
    EXPECT_NE(refusal(file).find("the limit is 100000000"), std::string::npos) << length;
  }
  // A header that would be gigabytes as a tree of values is refused at its first bracket.
  EXPECT_NE(refusal(file_of("{\"a\":" + std::string(10'000'000, '['), 0)), "");
}

TEST(Safetensors, AFullDiskIsAFailureThatNamesTheFile) {
  const Scratch scratch;
  const std::string path = scratch.path("file");
  const std::string data(100'000, 'x');
  std::string message;
  {
    const test::FileSizeLimit limit(50'000);
    message = message_of<Failure>([&] {
      write_safetensors(path, {{"a", "U8", {100'000}, bytes_of(data)}});
    });
  }
  EXPECT_EQ(message, "cannot write " + path + ": write: File too large");
  EXPECT_EQ(test::entries(scratch.path()), 0u);
}

// Weights say nothing to pictures that are prepared in another way: nobody would notice.
TEST(Preparation, ThatIsNotTheNetworksIsSaid) {
  using Metadata = std::map<std::string, std::string>;
  const auto said = [](const Metadata& metadata, const std::vector<double>& mean,
                       const std::vector<double>& deviation) {
    DataRecipe data;
    data.mean = mean;
    data.deviation = deviation;
    return other_preparation(metadata, data);
  };
  const Metadata none{{"format", "pt"}};
  EXPECT_NE(said(none, {0}, {1}).find("it does not say how pictures were prepared"),
            std::string::npos);
  EXPECT_NE(said(none, {0, 0, 0}, {1, 1, 1}), "");
  EXPECT_EQ(said(none, {0.5}, {1}), "");
  EXPECT_EQ(said(none, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}), "");
  const Metadata plain{{"data.mean", "[ 0.0 ]"}, {"data.deviation", "[ 1.0 ]"}};
  EXPECT_EQ(said(plain, {0}, {1}), "");
  EXPECT_EQ(said(plain, {0, 0, 0}, {1}), "");
  EXPECT_EQ(said(plain, {0.1307}, {0.3081}),
            "its network was trained with data.mean = [0] and data.deviation = [1], here they are "
            "[0.1307] and [0.3081]");
  const Metadata colors{{"data.mean", "[ 0.485, 0.456, 0.406 ]"}, {"data.deviation", "[ 0.229 ]"}};
  EXPECT_EQ(said(colors, {0.485, 0.456, 0.406}, {0.229, 0.229, 0.229}), "");
  EXPECT_NE(said(colors, {0.485}, {0.229}), "");
  EXPECT_NE(said(colors, {0}, {1}), "");
  EXPECT_EQ(said({{"data.mean", "nonsense"}, {"data.deviation", "[]"}}, {0.5}, {1}), "");
}

}  // namespace
}  // namespace convoy::train
