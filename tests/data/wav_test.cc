#include "data/sound/wav.h"

#include <gtest/gtest.h>

#include "tests/data/wav_support.h"

namespace convoy::data {
namespace {

using Samples = std::vector<float>;

const std::vector<int> kSamples = {0, 16384, -32768, 32767};
const Samples kRead = {0, 0.5f, -1, 32767 / 32768.0f};

void expect_refused(const Bytes& file, const std::vector<std::string>& parts) {
  std::vector<std::string> all = parts;
  all.push_back("dir/a.wav: ");
  expect_error<UsageError>([&] { parse_wav(file, "dir/a.wav"); }, all);
}

Bytes with(Bytes file, std::size_t at, const std::vector<int>& bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) file.at(at + i) = static_cast<std::byte>(bytes[i]);
  return file;
}

Bytes cut(Bytes file, std::size_t less) {
  file.resize(file.size() - less);
  return file;
}

// PCM of 16 bits, said in the long way.
Chunk extensible(int kind = 1, int rate = 44100) {
  Chunk chunk = format_chunk({.kind = 0xfffe, .rate = rate});
  append(chunk.bytes, to_bytes({22, 0, 16, 0, 4,    0, 0, 0,    kind, 0,    0,    0,
                                0,  0, 16, 0, 0x80, 0, 0, 0xaa, 0,    0x38, 0x9b, 0x71}));
  return chunk;
}

TEST(Wav, SamplesAreParts) {
  const Sound sound = parse_wav(wav(kSamples, 11025), "a.wav");
  EXPECT_EQ(sound.rate, 11025);
  EXPECT_EQ(sound.samples, kRead);
}

TEST(Wav, OfTwoChannelsTheMean) {
  const Sound sound =
      parse_wav(riff({format_chunk({.channels = 2, .block = 4}),
                      data_chunk({-32768, -32768, 32767, 32767, 1, 0, 16384, -16384})}),
                "a.wav");
  EXPECT_EQ(sound.samples, (Samples{-1, 32767 / 32768.0f, 0.5f / 32768, 0}));
}

TEST(Wav, ChunksInAnyOrderAndOthersOfOddSizes) {
  const Chunk odd{"LIST", to_bytes({1, 2, 3})}, empty{"fact", {}};
  const Chunk format = format_chunk(), data = data_chunk(kSamples);
  EXPECT_EQ(parse_wav(riff({odd, data, empty, odd, format}), "").samples, kRead);
  EXPECT_EQ(parse_wav(riff({format, odd, data, odd}), "").samples, kRead);
  // The last chunk is not made even, and the header does not count that byte, or does.
  const Bytes whole = riff({format, data, odd});
  EXPECT_EQ(parse_wav(cut(whole, 1), "").samples, kRead);
  EXPECT_EQ(
      parse_wav(with(cut(whole, 1), 4, {static_cast<int>(whole.size()) - 9, 0, 0, 0}), "").samples,
      kRead);
  // What is behind the counted bytes is nobody's.
  Bytes more = whole;
  append(more, to_bytes({'T', 'A', 'G'}));
  EXPECT_EQ(parse_wav(more, "").samples, kRead);
  // Nor are a few that are counted, too few for a chunk.
  Bytes stray = riff({format, data});
  append(stray, to_bytes({0}));
  stray = with(stray, 4, {static_cast<int>(stray.size()) - 8, 0, 0, 0});
  EXPECT_EQ(parse_wav(stray, "").samples, kRead);
}

TEST(Wav, LongFormats) {
  const Sound sound = parse_wav(riff({extensible(), data_chunk(kSamples)}), "");
  EXPECT_EQ(sound.rate, 44100);
  EXPECT_EQ(sound.samples, kRead);
  expect_refused(riff({extensible(3), data_chunk(kSamples)}), {"floats of 16 bits"});
  expect_refused(riff({format_chunk({.kind = 0xfffe}), data_chunk(kSamples)}),
                 {"truncated", "16 bytes", "40"});
  Chunk other = extensible();  // of one kind of ambisonics, whose number is PCM's as well
  other.bytes[28] = std::byte{0x21};
  expect_refused(riff({other, data_chunk(kSamples)}), {"a kind that has no number"});
}

TEST(Wav, OtherFilesAreRefused) {
  expect_refused({}, {"not a WAV file"});
  expect_refused(to_bytes({'R', 'I', 'F', 'F', 4, 0, 0, 0}), {"truncated", "header"});
  expect_refused(with(wav(kSamples), 0, {'R', 'I', 'F', 'X'}), {"RIFX", "big-endian"});
  expect_refused(with(wav(kSamples), 0, {'R', 'F', '6', '4'}), {"RF64"});
  expect_refused(with(wav(kSamples), 0, {'O', 'g', 'g', 'S'}), {"not a WAV file"});
  expect_refused(with(wav(kSamples), 8, {'A', 'V', 'I', 7}), {"'AVI?'", "'WAVE'"});
}

TEST(Wav, WhatCannotBeReadIsNamed) {
  const Chunk data = data_chunk(kSamples);
  const auto refused = [&](const Format& format, const std::vector<std::string>& parts) {
    expect_refused(riff({format_chunk(format), data}), parts);
  };
  refused({.bits = 24, .block = 3}, {"PCM of 24 bits", "convert"});
  refused({.bits = 8, .block = 1}, {"PCM of 8 bits"});
  refused({.kind = 3, .bits = 32, .block = 4}, {"floats of 32 bits"});
  refused({.kind = 6, .bits = 8, .block = 1}, {"A-law"});
  refused({.kind = 7, .bits = 8, .block = 1}, {"mu-law"});
  refused({.kind = 85}, {"a compression (number 85)"});
  refused({.channels = 6, .block = 12}, {"6 channels", "1 and 2"});
  refused({.channels = 0}, {"0 channels"});
  refused({.rate = 0}, {"0 samples per second"});
  refused({.block = 4}, {"4 bytes for each sample", "1 channel of 16 bits have 2"});
}

TEST(Wav, HeadersThatLieAreRefused) {
  const Bytes good = wav(kSamples);  // 12 bytes of header, 24 of the format, 16 of data
  ASSERT_EQ(good.size(), 52u);
  expect_refused(cut(good, 2), {"truncated", "52 bytes", "has 50"});
  expect_refused(with(good, 4, {0, 0, 0, 0}), {"0 bytes follow", "pipe"});
  expect_refused(with(good, 4, {255, 255, 255, 255}), {"4294967295 bytes follow", "pipe"});
  expect_refused(with(good, 4, {254, 255, 255, 255}), {"truncated", "4294967302 bytes"});
  expect_refused(with(good, 4, {42, 0, 0, 0}), {"truncated", "'data'", "8 bytes", "are 6"});
  expect_refused(with(good, 4, {30, 0, 0, 0}), {"truncated", "header of a chunk"});
  expect_refused(with(good, 4, {4, 0, 0, 0}), {"no chunk 'fmt '"});
  expect_refused(with(good, 40, {255, 255, 255, 255}), {"'data'", "4294967295 bytes", "are 8"});
  expect_refused(with(good, 16, {255, 255, 255, 127}), {"'fmt '", "2147483647", "are 32"});
  expect_refused(riff({{"fmt ", to_bytes({1, 0, 1, 0})}, data_chunk(kSamples)}),
                 {"'fmt '", "4 bytes", "at least 16"});
  expect_refused(riff({format_chunk()}), {"no chunk 'data'"});
  expect_refused(riff({data_chunk(kSamples)}), {"no chunk 'fmt '"});
  expect_refused(riff({format_chunk(), data_chunk({}), data_chunk({1})}), {"two chunks 'data'"});
  expect_refused(riff({format_chunk(), format_chunk(), data_chunk({1})}), {"two chunks 'fmt '"});
  expect_refused(wav({}), {"'data' has 0 bytes"});
  expect_refused(riff({format_chunk(), {"data", to_bytes({1, 2, 3})}}),
                 {"3 bytes", "multiple of 2"});
  expect_refused(riff({format_chunk({.channels = 2, .block = 4}), data_chunk({1, 2, 3})}),
                 {"6 bytes", "multiple of 4"});
}

}  // namespace
}  // namespace convoy::data
