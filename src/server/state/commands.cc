#include "server/state/commands.h"

#include "convoy/base/error.h"

namespace convoy::server {
namespace {

Writer begin(CommandNumber number) {
  Writer writer;
  writer.u16(kCommandVersion);
  writer.u8(static_cast<std::uint8_t>(number));
  return writer;
}

constexpr std::size_t kPushedSliceBytes = 4 + 8 + 1 + 8;

// Calls array(values) where the bytes of values stand.
template <typename Array>
void lay_out(Writer& writer, const EncodedValues& values, const Array& array) {
  writer.u8(static_cast<std::uint8_t>(values.encoding()));
  writer.u64(values.size());
  array(values);
}

template <typename Array>
void lay_out(Writer& writer, const Push& push, const Array& array) {
  writer.u64(push.client);
  writer.u64(push.sequence);
  writer.u64(push.samples);
  writer.u64(push.progress);
  writer.u32(static_cast<std::uint32_t>(push.ids.size()));
  for (const std::uint64_t id : push.ids) writer.u64(id);
  writer.u32(static_cast<std::uint32_t>(push.slices.size()));
  for (const PushedSlice& slice : push.slices) {
    writer.u32(slice.slice);
    writer.u64(slice.version);
    lay_out(writer, slice.values, array);
  }
}

template <typename Array>
void lay_out(Writer& writer, const std::vector<InitialSlice>& slices, const Array& array) {
  writer.u32(static_cast<std::uint32_t>(slices.size()));
  for (const InitialSlice& slice : slices) {
    writer.u32(slice.slice);
    writer.u64(slice.version);
    lay_out(writer, slice.values, array);
    writer.u8(static_cast<std::uint8_t>(slice.slots.size()));
    for (const EncodedValues& slot : slice.slots) lay_out(writer, slot, array);
  }
}

template <typename What>
Bytes whole(CommandNumber number, const What& what, std::size_t size) {
  Writer writer = begin(number);
  writer.reserve(size);
  lay_out(writer, what, [&](const EncodedValues& values) { writer.raw(values.bytes()); });
  return writer.take();
}

template <typename What>
std::vector<Bytes> pieces(CommandNumber number, const What& what) {
  std::vector<Bytes> pieces;
  Writer writer = begin(number);
  lay_out(writer, what,
          [&](const EncodedValues&) { pieces.push_back(std::exchange(writer, {}).take()); });
  pieces.push_back(writer.take());
  return pieces;
}

Bytes with_number(CommandNumber command, std::uint64_t number) {
  Writer writer = begin(command);
  writer.u64(number);
  return writer.take();
}

}  // namespace

std::string_view name(Status status) {
  switch (status) {
    case Status::done:
      return "done";
    case Status::collected:
      return "collected";
    case Status::fetch_again:
      return "fetch again";
    case Status::not_finite:
      return "not finite";
    case Status::wrong_shape:
      return "wrong shape";
    case Status::not_member:
      return "not a member";
    case Status::not_initialized:
      return "not initialized";
    case Status::superseded:
      return "superseded";
    case Status::malformed:
      return "malformed";
    case Status::conflict:
      return "conflict";
    case Status::full:
      return "full";
    case Status::no_vector:
      return "no such vector";
  }
  return "unknown";
}

Bytes encode(const Reply& reply) {
  Writer writer;
  writer.u16(kCommandVersion);
  writer.u8(static_cast<std::uint8_t>(reply.status));
  writer.u64(reply.index);
  writer.u64(reply.round);
  writer.u64(reply.sequence);
  writer.u64(reply.staleness);
  writer.text(std::string_view(reply.message).substr(0, kMaxMessage));
  writer.bytes(reply.content);
  return writer.take();
}

Bytes progress_content(std::uint64_t progress) {
  Writer writer;
  writer.u64(progress);
  return writer.take();
}

std::uint64_t read_progress(const Reply& reply) {
  Reader reader(reply.content, "progress in a reply of a shard");
  const std::uint64_t progress = reader.u64();
  reader.end();
  return progress;
}

Reply decode_reply(std::span<const std::byte> bytes) {
  Reader reader(bytes, "reply of a shard");
  reader.version(kCommandVersion);
  Reply reply;
  reply.status = static_cast<Status>(reader.u8());
  if (reply.status > Status::no_vector) reader.refuse("no status has this number");
  reply.index = reader.u64();
  reply.round = reader.u64();
  reply.sequence = reader.u64();
  reply.staleness = reader.u64();
  reply.message = reader.text(kMaxMessage);
  const auto content = reader.bytes();
  reply.content.assign(content.begin(), content.end());
  reader.end();
  return reply;
}

Push read_push(Reader& reader) {
  Push push;
  push.client = reader.u64();
  push.sequence = reader.u64();
  push.samples = reader.u64();
  push.progress = reader.u64();
  const std::uint32_t ids = reader.count(8);
  push.ids.reserve(ids);
  for (std::uint32_t i = 0; i < ids; ++i) push.ids.push_back(reader.u64());
  const std::uint32_t slices = reader.count(kPushedSliceBytes);
  push.slices.reserve(slices);
  for (std::uint32_t i = 0; i < slices; ++i) {
    PushedSlice slice;
    slice.slice = reader.u32();
    slice.version = reader.u64();
    slice.values = reader.values();
    if (i > 0 && slice.slice <= push.slices.back().slice) reader.refuse("slices don't ascend");
    push.slices.push_back(slice);
  }
  reader.end();
  return push;
}

Bytes define_command(const Definition& definition) {
  Writer writer = begin(CommandNumber::define);
  write(writer, definition);
  return writer.take();
}

Bytes initialize_command(const std::vector<InitialSlice>& slices) {
  return whole(CommandNumber::initialize, slices, 0);
}

std::vector<Bytes> initialize_pieces(const std::vector<InitialSlice>& slices) {
  return pieces(CommandNumber::initialize, slices);
}

Bytes push_command(const Push& push) {
  std::size_t size = 3 + 4 * 8 + 2 * 4 + 8 * push.ids.size();
  for (const PushedSlice& slice : push.slices) {
    size += kPushedSliceBytes + slice.values.bytes().size();
  }
  return whole(CommandNumber::push, push, size);
}

std::vector<Bytes> push_pieces(const Push& push) { return pieces(CommandNumber::push, push); }

Bytes set_rates_command(std::uint64_t ordinal,
                        const std::vector<std::pair<std::uint32_t, double>>& rates) {
  Writer writer = begin(CommandNumber::set_rates);
  writer.u64(ordinal);
  writer.u32(static_cast<std::uint32_t>(rates.size()));
  for (const auto& [slice, rate] : rates) {
    writer.u32(slice);
    writer.f64(rate);
  }
  return writer.take();
}

Bytes join_command(std::uint64_t client, std::string_view name) {
  Writer writer = begin(CommandNumber::join);
  writer.u64(client);
  writer.text(name);
  return writer.take();
}

Bytes leave_command(std::uint64_t client) { return with_number(CommandNumber::leave, client); }
Bytes forget_command(std::uint64_t client) { return with_number(CommandNumber::forget, client); }
Bytes cut_command(std::uint64_t id) { return with_number(CommandNumber::cut, id); }
Bytes drop_cut_command(std::uint64_t id) { return with_number(CommandNumber::drop_cut, id); }

}  // namespace convoy::server
