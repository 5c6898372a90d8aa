#include "server/wire/exact_sums.h"

#include <algorithm>
#include <array>

#include "convoy/base/error.h"

namespace convoy::server {
namespace {

constexpr std::size_t kNumbers = ExactSum::kBytes / 8;  // digits, the last one wide, and specials
constexpr std::size_t kSumDigits = kNumbers - 2;        // of 32 bits
constexpr std::uint64_t kOnes = 0xffffffff;
constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};
// Forms by the digits above those that follow.
enum class SumForm : std::uint8_t { zeros = 0, ones = 1, whole = 2 };

}  // namespace

void write(Writer& writer, const ExactSum& sum) {
  std::array<std::byte, ExactSum::kBytes> bytes;
  sum.write(bytes);
  const auto number = [&](std::size_t i) {
    return get_little_endian<std::uint64_t>(bytes.data() + 8 * i);
  };
  const std::uint64_t last = number(kSumDigits);
  if (last != 0 && last != kMinusOne) {
    writer.u8(static_cast<std::uint8_t>(SumForm::whole));
    return writer.raw(bytes);
  }
  const std::uint64_t above = last == 0 ? 0 : kOnes;
  std::size_t end = kSumDigits;
  while (end > 0 && number(end - 1) == above) --end;
  std::size_t first = 0;
  while (first < end && number(first) == 0) ++first;
  writer.u8(static_cast<std::uint8_t>(last == 0 ? SumForm::zeros : SumForm::ones));
  writer.u8(static_cast<std::uint8_t>(number(kNumbers - 1)));
  writer.u8(static_cast<std::uint8_t>(first));
  writer.u8(static_cast<std::uint8_t>(end - first));
  for (std::size_t i = first; i < end; ++i) writer.u32(static_cast<std::uint32_t>(number(i)));
}

ExactSum read_exact_sum(Reader& reader) {
  std::array<std::byte, ExactSum::kBytes> bytes{};
  const auto put = [&](std::size_t i, std::uint64_t number) {
    put_little_endian(bytes.data() + 8 * i, number);
  };
  const std::uint8_t form = reader.u8();
  if (form == static_cast<std::uint8_t>(SumForm::whole)) {
    const auto raw = reader.raw(ExactSum::kBytes);
    std::copy(raw.begin(), raw.end(), bytes.begin());
  } else {
    if (form > static_cast<std::uint8_t>(SumForm::ones)) reader.refuse("no sum has this form");
    const bool ones = form == static_cast<std::uint8_t>(SumForm::ones);
    put(kNumbers - 1, reader.u8());
    const std::size_t first = reader.u8();
    const std::size_t count = reader.u8();
    if (first + count > kSumDigits) reader.refuse("a sum has fewer digits");
    for (std::size_t i = first; i < first + count; ++i) put(i, reader.u32());
    for (std::size_t i = first + count; ones && i < kSumDigits; ++i) put(i, kOnes);
    if (ones) put(kSumDigits, kMinusOne);
  }
  try {
    return ExactSum::read(bytes);
  } catch (const Failure& error) {
    reader.refuse(error.what());
  }
}

}  // namespace convoy::server
