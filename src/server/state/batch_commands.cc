#include "server/state/batch_commands.h"

#include <string>
#include <utility>

#include "server/state/commands.h"

namespace convoy::server {
namespace {

constexpr std::uint8_t kZeros = 2;
constexpr std::size_t kSliceHeadBytes = 4 + 1 + 8;

Writer begin_batch_command(CommandNumber number) {
  Writer writer;
  writer.u16(kCommandVersion);
  writer.u8(static_cast<std::uint8_t>(number));
  return writer;
}

Writer begin_numbered(CommandNumber number, std::uint64_t ordinal) {
  Writer writer = begin_batch_command(number);
  writer.u64(ordinal);
  return writer;
}

void write_names(Writer& writer, std::span<const optim::VectorName> names) {
  writer.u32(static_cast<std::uint32_t>(names.size()));
  for (const optim::VectorName& name : names) write(writer, name);
}

Bytes with_slices(Writer writer, std::span<const BatchSlice> slices) {
  std::size_t size = writer.size() + 4;
  for (const BatchSlice& slice : slices) size += kSliceHeadBytes + slice.values.bytes.size();
  writer.reserve(size);
  write(writer, slices);
  return writer.take();
}

}  // namespace

void write(Writer& writer, const optim::VectorName& name) {
  writer.u8(static_cast<std::uint8_t>(name.role));
  write(writer, EvaluationId{name.iteration, name.evaluation});
}

optim::VectorName read_vector_name(Reader& reader) {
  const std::uint8_t role = reader.u8();
  if (role > static_cast<std::uint8_t>(optim::VectorRole::change)) {
    reader.refuse("no vector has the role " + std::to_string(role));
  }
  const EvaluationId id = read_evaluation_id(reader);
  return {static_cast<optim::VectorRole>(role), id.iteration, id.evaluation};
}

void write(Writer& writer, const EvaluationId& id) {
  writer.u64(static_cast<std::uint64_t>(id.iteration));
  writer.u32(static_cast<std::uint32_t>(id.evaluation));
}

EvaluationId read_evaluation_id(Reader& reader) {
  EvaluationId id;
  id.iteration = static_cast<std::int64_t>(reader.u64());
  id.evaluation = static_cast<std::int32_t>(reader.u32());
  if (id.iteration < 0 || id.evaluation < 0) reader.refuse("no evaluation has this number");
  return id;
}

void write(Writer& writer, std::span<const optim::Term> terms) {
  writer.u32(static_cast<std::uint32_t>(terms.size()));
  for (const optim::Term& term : terms) {
    writer.f64(term.factor);
    write(writer, term.vector);
  }
}

std::vector<optim::Term> read_terms(Reader& reader) {
  std::vector<optim::Term> terms(reader.count(8 + kVectorNameBytes));
  for (optim::Term& term : terms) {
    term.factor = reader.f64();
    term.vector = read_vector_name(reader);
  }
  return terms;
}

Element read_element(Reader& reader) {
  const std::uint8_t element = reader.u8();
  if (element > static_cast<std::uint8_t>(Element::f64)) reader.refuse("elements are f32 or f64");
  return static_cast<Element>(element);
}

void write_head(Writer& writer, const BatchValues& values) {
  writer.u8(values.zeros ? kZeros : static_cast<std::uint8_t>(values.element));
  writer.u64(values.size);
}

BatchValues read_batch_values(Reader& reader) {
  BatchValues values;
  const std::uint8_t kind = reader.u8();
  if (kind > kZeros) reader.refuse("values are f32, f64 or zeros");
  values.zeros = kind == kZeros;
  if (!values.zeros) values.element = static_cast<Element>(kind);
  values.size = reader.u64();
  if (values.zeros) return values;
  // Compared before it is multiplied, so that no size wraps around.
  if (values.size > reader.left() / size_of(values.element)) {
    reader.refuse(std::to_string(values.size) + " values should follow in " +
                  std::to_string(reader.left()) + " bytes");
  }
  values.bytes = reader.raw(values.size * size_of(values.element));
  return values;
}

void write(Writer& writer, std::span<const BatchSlice> slices) {
  writer.u32(static_cast<std::uint32_t>(slices.size()));
  for (const BatchSlice& slice : slices) {
    writer.u32(slice.slice);
    write_head(writer, slice.values);
    writer.raw(slice.values.bytes);
  }
}

std::vector<BatchSlice> read_batch_slices(Reader& reader) {
  std::vector<BatchSlice> slices(reader.count(kSliceHeadBytes));
  for (std::size_t i = 0; i < slices.size(); ++i) {
    slices[i].slice = reader.u32();
    slices[i].values = read_batch_values(reader);
    if (i > 0 && slices[i].slice <= slices[i - 1].slice) reader.refuse("slices don't ascend");
  }
  return slices;
}

std::vector<Bytes> slice_pieces(Writer head, std::span<const BatchSlice> slices) {
  std::vector<Bytes> pieces;
  head.u32(static_cast<std::uint32_t>(slices.size()));
  for (const BatchSlice& slice : slices) {
    head.u32(slice.slice);
    write_head(head, slice.values);
    pieces.push_back(std::exchange(head, {}).take());
  }
  pieces.push_back(head.take());
  return pieces;
}

Bytes space_command(Element element) {
  Writer writer = begin_batch_command(CommandNumber::space);
  writer.u8(static_cast<std::uint8_t>(element));
  return writer.take();
}

std::vector<Bytes> put_pieces(std::uint64_t ordinal, const optim::VectorName& name,
                              std::span<const BatchSlice> slices) {
  Writer writer = begin_numbered(CommandNumber::put, ordinal);
  write(writer, name);
  return slice_pieces(std::move(writer), slices);
}

Bytes put_command(std::uint64_t ordinal, const optim::VectorName& name,
                  std::span<const BatchSlice> slices) {
  Writer writer = begin_numbered(CommandNumber::put, ordinal);
  write(writer, name);
  return with_slices(std::move(writer), slices);
}

Bytes combine_command(std::uint64_t ordinal, const optim::VectorName& into,
                      std::span<const optim::Term> terms) {
  Writer writer = begin_numbered(CommandNumber::combine, ordinal);
  write(writer, into);
  write(writer, terms);
  return writer.take();
}

Bytes multiply_command(std::uint64_t ordinal, const optim::VectorName& into,
                       const optim::VectorName& a, const optim::VectorName& b) {
  Writer writer = begin_numbered(CommandNumber::multiply, ordinal);
  for (const optim::VectorName& name : {into, a, b}) write(writer, name);
  return writer.take();
}

Bytes keep_command(std::uint64_t ordinal, std::span<const optim::VectorName> names) {
  Writer writer = begin_numbered(CommandNumber::keep, ordinal);
  write_names(writer, names);
  return writer.take();
}

Bytes evaluate_command(std::uint64_t ordinal, const EvaluationId& id, std::uint32_t portions) {
  Writer writer = begin_numbered(CommandNumber::evaluate, ordinal);
  write(writer, id);
  writer.u32(portions);
  return writer.take();
}

Bytes gradient_command(const EvaluationId& id, std::span<const BatchSlice> slices) {
  Writer writer = begin_batch_command(CommandNumber::gradient);
  write(writer, id);
  return with_slices(std::move(writer), slices);
}

}  // namespace convoy::server
