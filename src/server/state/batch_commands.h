// Commands on the vectors of a batch optimizer: their bytes (docs/server-format.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "convoy/optim/space.h"
#include "convoy/server/batch.h"
#include "server/state/batch_vectors.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server {

void write(Writer& writer, const optim::VectorName& name);
optim::VectorName read_vector_name(Reader& reader);
inline constexpr std::size_t kVectorNameBytes = 1 + 8 + 4;
void write(Writer& writer, const EvaluationId& id);
EvaluationId read_evaluation_id(Reader& reader);
void write(Writer& writer, std::span<const optim::Term> terms);
std::vector<optim::Term> read_terms(Reader& reader);
Element read_element(Reader& reader);

// Elements as they stand in a message that somebody else keeps, at any address; or so many zeros.
struct BatchValues {
  Element element = Element::f32;
  bool zeros = false;
  std::uint64_t size = 0;
  std::span<const std::byte> bytes;  // none of zeros
};
// The elements' own type, or zeros: u8 0, 1 or 2. Their number. Then the bytes, unless zeros.
void write_head(Writer& writer, const BatchValues& values);
BatchValues read_batch_values(Reader& reader);

struct BatchSlice {
  std::uint32_t slice = 0;  // its place in the definition
  BatchValues values;
};
void write(Writer& writer, std::span<const BatchSlice> slices);
std::vector<BatchSlice> read_batch_slices(Reader& reader);  // ascending
// The same in pieces: what stands in front of each array, and behind the last one (nothing).
std::vector<Bytes> slice_pieces(Writer head, std::span<const BatchSlice> slices);

Bytes space_command(Element element);
// Its pieces: values are sent from where they are.
std::vector<Bytes> put_pieces(std::uint64_t ordinal, const optim::VectorName& name,
                              std::span<const BatchSlice> slices);
Bytes put_command(std::uint64_t ordinal, const optim::VectorName& name,
                  std::span<const BatchSlice> slices);
Bytes combine_command(std::uint64_t ordinal, const optim::VectorName& into,
                      std::span<const optim::Term> terms);
Bytes multiply_command(std::uint64_t ordinal, const optim::VectorName& into,
                       const optim::VectorName& a, const optim::VectorName& b);
Bytes keep_command(std::uint64_t ordinal, std::span<const optim::VectorName> names);
Bytes evaluate_command(std::uint64_t ordinal, const EvaluationId& id, std::uint32_t portions);
// What a primary that seals an evaluation gives to its log.
Bytes gradient_command(const EvaluationId& id, std::span<const BatchSlice> slices);

}  // namespace convoy::server
