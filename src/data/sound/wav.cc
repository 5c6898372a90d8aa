// Multimedia Programming Interface and Data Specifications 1.0 (IBM and Microsoft, 1991): "RIFF",
// the bytes that follow as 32 bits, "WAVE", then chunks: four letters, the size of what they hold
// as 32 bits, that, and a byte more where the size is odd. Numbers are little-endian.
#include "data/sound/wav.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "convoy/base/error.h"
#include "data/packed/numbers.h"

namespace convoy::data {
namespace {

using Span = std::span<const std::byte>;

constexpr std::size_t kTagged = 8;   // four letters and a size
constexpr std::size_t kFormat = 16;  // the part of "fmt " that all kinds have
constexpr std::size_t kExtended = 40;
constexpr unsigned kPcm = 1;
constexpr unsigned kExtensible = 0xfffe;  // the kind stands further behind, and then this
constexpr std::array<unsigned char, 14> kOfKinds = {0,    0, 0,    0,    0x10, 0,    0x80,
                                                    0x00, 0, 0xaa, 0x00, 0x38, 0x9b, 0x71};
constexpr std::size_t kUnknown = 0xffffffff;  // what some write where they can't go back
constexpr std::uint32_t kLeastRate = 1000, kMostRate = 1'000'000;

class Wav {
 public:
  Wav(Span file, const std::string& name) : name_(name) { find_chunks(body_of(file)); }

  Sound sound() const;

 private:
  UsageError error(const std::string& what) const { return UsageError(name_ + ": " + what); }
  Span body_of(Span file) const;
  void find_chunks(Span rest);
  void keep(std::optional<Span>& chunk, Span bytes, const char* letters) const;
  void check_kind(Span format) const;

  const std::string& name_;
  std::optional<Span> format_, data_;
};

bool begins(Span bytes, std::string_view letters) {
  return bytes.size() >= letters.size() &&
         std::equal(letters.begin(), letters.end(), bytes.begin(), [](char letter, std::byte byte) {
           return static_cast<std::byte>(letter) == byte;
         });
}

// "'LIST'", with a '?' for what can't be printed.
std::string quoted(Span letters) {
  std::string text = "'";
  for (const std::byte byte : letters.first(4)) {
    const auto letter = std::to_integer<unsigned char>(byte);
    text += letter >= 0x20 && letter < 0x7f ? static_cast<char>(letter) : '?';
  }
  return text + "'";
}

// What the header counts.
Span Wav::body_of(Span file) const {
  if (begins(file, "RIFX"))
    throw error("a RIFX file, whose numbers are big-endian; RIFF can be read");
  if (begins(file, "RF64") || begins(file, "BW64"))
    throw error("a WAV file for more than 4 GiB (RF64); RIFF can be read: cut it into recordings");
  if (!begins(file, "RIFF")) throw error("not a WAV file, which begins with RIFF");
  if (file.size() < kTagged + 4) throw error("truncated: it ends inside of the header");
  if (!begins(file.subspan(kTagged), "WAVE"))
    throw error("a RIFF file that holds " + quoted(file.subspan(kTagged)) + ", not 'WAVE'");
  const std::size_t size = get<std::uint32_t>(file, 4);
  if (size < 4 || size == kUnknown) {
    throw error("the header says that " + std::to_string(size) +
                " bytes follow: was it written to a pipe, and never completed?");
  }
  // The byte that makes the last chunk even is left out by some.
  if (size > file.size() - kTagged && size - 1 != file.size() - kTagged) {
    throw error("truncated: the header says " + std::to_string(size + kTagged) +
                " bytes, the file has " + std::to_string(file.size()));
  }
  return file.subspan(kTagged + 4, std::min(size, file.size() - kTagged) - 4);
}

void Wav::keep(std::optional<Span>& chunk, Span bytes, const char* letters) const {
  if (chunk) throw error(std::string("it holds two chunks '") + letters + "'");
  chunk = bytes;
}

void Wav::find_chunks(Span rest) {
  while (!rest.empty()) {
    if (rest.size() < kTagged) {
      // Some programs leave a few bytes behind the last chunk, and count them.
      if (format_ && data_) break;
      throw error("truncated: it ends inside of the header of a chunk");
    }
    const std::size_t size = get<std::uint32_t>(rest, 4);
    const Span tag = rest.first(4);
    rest = rest.subspan(kTagged);
    if (size > rest.size()) {
      throw error("truncated: its chunk " + quoted(tag) + " says " + std::to_string(size) +
                  " bytes, of which there are " + std::to_string(rest.size()));
    }
    if (begins(tag, "fmt ")) keep(format_, rest.first(size), "fmt ");
    if (begins(tag, "data")) keep(data_, rest.first(size), "data");
    rest = rest.subspan(std::min(size + size % 2, rest.size()));
  }
  if (!format_) throw error("it has no chunk 'fmt '");
  if (!data_) throw error("it has no chunk 'data'");
}

void Wav::check_kind(Span format) const {
  unsigned kind = get<std::uint16_t>(format, 0);
  if (kind == kExtensible) {
    if (format.size() < kExtended) {
      throw error("truncated: its chunk 'fmt ' has " + std::to_string(format.size()) +
                  " bytes; an extended one has " + std::to_string(kExtended));
    }
    kind = get<std::uint16_t>(format, 24);
    const Span rest = format.subspan(26, kOfKinds.size());
    if (!std::ranges::equal(rest, std::as_bytes(std::span(kOfKinds))))
      throw error("its samples are of a kind that has no number; PCM of 16 bits can be read");
  }
  const unsigned bits = get<std::uint16_t>(format, 14);
  if (kind == kPcm && bits == 16) return;
  const std::string what = kind == kPcm ? "PCM"
                           : kind == 3  ? "floats"
                           : kind == 6  ? "A-law"
                           : kind == 7  ? "mu-law"
                                        : "a compression (number " + std::to_string(kind) + ")";
  throw error("its samples are " + what + " of " + std::to_string(bits) +
              " bits; PCM of 16 bits can be read: convert it");
}

Sound Wav::sound() const {
  const Span format = *format_;
  if (format.size() < kFormat) {
    throw error("truncated: its chunk 'fmt ' has " + std::to_string(format.size()) +
                " bytes; it has at least " + std::to_string(kFormat));
  }
  check_kind(format);
  const std::size_t channels = get<std::uint16_t>(format, 2);
  if (channels < 1 || channels > 2) {
    throw error("it has " + std::to_string(channels) +
                " channels; 1 and 2 can be read: choose one of them");
  }
  const auto rate = get<std::uint32_t>(format, 4);
  if (rate < kLeastRate || rate > kMostRate) {
    throw error("the header says " + std::to_string(rate) + " samples per second; it can be " +
                std::to_string(kLeastRate) + " to " + std::to_string(kMostRate));
  }
  const std::size_t each = channels * 2;
  if (const std::size_t said = get<std::uint16_t>(format, 12); said != each) {
    throw error("the header says " + std::to_string(said) + " bytes for each sample; " +
                std::to_string(channels) + (channels == 1 ? " channel" : " channels") +
                " of 16 bits have " + std::to_string(each));
  }
  if (data_->empty() || data_->size() % each != 0) {
    throw error("its chunk 'data' has " + std::to_string(data_->size()) +
                " bytes, which has to be a multiple of " + std::to_string(each) + " and not 0");
  }
  Sound sound{static_cast<int>(rate), {}};
  sound.samples.reserve(data_->size() / each);
  for (std::size_t at = 0; at < data_->size(); at += each) {
    int sum = 0;
    for (std::size_t channel = 0; channel < channels; ++channel)
      sum += static_cast<std::int16_t>(get<std::uint16_t>(*data_, at + 2 * channel));
    sound.samples.push_back(static_cast<float>(sum) / (32768.0f * static_cast<float>(channels)));
  }
  return sound;
}

}  // namespace

Sound parse_wav(std::span<const std::byte> file, const std::string& name) {
  return Wav(file, name).sound();
}

}  // namespace convoy::data
