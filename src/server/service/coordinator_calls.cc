#include "server/service/coordinator_calls.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace convoy::server::calls {
namespace {

constexpr std::size_t kMaxCallText = 4096;  // bytes of a reason, an address
constexpr std::size_t kMaxName = 255;
constexpr std::uint32_t kMaxMembers = 65536;

Writer begin() {
  Writer writer;
  writer.u16(kServiceVersion);
  return writer;
}

transport::Message done(Writer& writer) { return transport::Message::of(writer.take()); }

// So that nothing is written that the other side refuses to read.
std::string_view cut_to(std::string_view text, std::size_t limit) { return text.substr(0, limit); }

// The bytes of a message in one piece, without the version.
class Opened {
 public:
  Opened(const transport::Message& message, std::string_view what)
      : bytes_(message.parts().size() == 1 ? Bytes() : message.gather()),
        reader_(message.parts().size() == 1 ? message.parts().front().bytes : std::span(bytes_),
                what) {
    reader_.version(kServiceVersion);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  Reader& operator*() { return reader_; }
  Reader* operator->() { return &reader_; }

 private:
  Bytes bytes_;
  Reader reader_;
};

template <typename T>
T ended(T value, Opened& from) {
  from->end();
  return value;
}

void check_id(Reader& from, const std::string& id) {
  const auto hexadecimal = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (id.size() != 32 || !std::all_of(id.begin(), id.end(), hexadecimal)) {
    from.refuse("the id of a job has 32 hexadecimal digits");
  }
}

template <typename Kind>
Kind read_kind(Reader& from, Kind last) {
  const std::uint8_t kind = from.u8();
  if (kind > static_cast<std::uint8_t>(last)) {
    from.refuse("there is no kind " + std::to_string(kind));
  }
  return static_cast<Kind>(kind);
}

}  // namespace

transport::Message encode(const JobState& state) {
  Writer writer = begin();
  writer.text(state.id);
  server::write(writer, state.plan);
  writer.boolean(state.description.has_value());
  if (state.description) server::write(writer, *state.description);
  writer.boolean(state.initialized);
  writer.text(cut_to(state.ended, kMaxCallText));
  writer.u32(static_cast<std::uint32_t>(state.servers.size()));
  for (const ServerAddress& server : state.servers) {
    writer.u64(server.server);
    writer.text(server.address);
  }
  writer.u32(static_cast<std::uint32_t>(state.configurations.size()));
  for (const auto& configuration : state.configurations) {
    replication::write(writer, configuration);
  }
  return done(writer);
}

JobState decode_job_state(const transport::Message& message) {
  Opened from(message, "state of the job");
  JobState state;
  state.id = from->text(32);
  check_id(*from, state.id);
  state.plan = read_job_plan(*from);
  if (from->boolean()) state.description = read_job_description(*from);
  state.initialized = from->boolean();
  state.ended = from->text(kMaxCallText);
  state.servers.resize(from->count(12));
  for (ServerAddress& server : state.servers) {
    server.server = from->u64();
    server.address = from->text(kMaxCallText);
  }
  state.configurations.resize(from->count(44));
  for (auto& configuration : state.configurations) {
    configuration = replication::read_configuration(*from);
  }
  return ended(std::move(state), from);
}

transport::Message encode(const JobDescription& description) {
  Writer writer = begin();
  server::write(writer, description);
  return done(writer);
}

JobDescription decode_description(const transport::Message& message) {
  Opened from(message, "description of the job");
  return ended(read_job_description(*from), from);
}

transport::Message encode(const ServerHello& hello) {
  Writer writer = begin();
  writer.u64(hello.server);
  writer.u64(hello.incarnation);
  writer.text(cut_to(hello.address, kMaxCallText));
  return done(writer);
}

ServerHello decode_server_hello(const transport::Message& message) {
  Opened from(message, "hello of a server");
  ServerHello hello;
  hello.server = from->u64();
  hello.incarnation = from->u64();
  hello.address = from->text(kMaxCallText);
  if (hello.server == 0) from->refuse("servers are numbered from 1");
  return ended(std::move(hello), from);
}

transport::Message encode(const ClientHello& hello) {
  Writer writer = begin();
  writer.text(cut_to(hello.name, kMaxName));
  writer.u8(static_cast<std::uint8_t>(hello.role));
  writer.u64(hello.group);
  writer.u32(hello.member);
  writer.u32(hello.members);
  writer.boolean(hello.description.has_value());
  if (hello.description) server::write(writer, *hello.description);
  writer.u64(hello.nonce);
  return done(writer);
}

ClientHello decode_client_hello(const transport::Message& message) {
  Opened from(message, "hello of a client");
  ClientHello hello;
  hello.name = from->text(kMaxName);
  hello.role = read_kind(*from, ClientRole::observer);
  hello.group = from->u64();
  hello.member = from->u32();
  hello.members = from->u32();
  if (hello.members == 0 || hello.members > kMaxMembers || hello.member >= hello.members) {
    from->refuse("member " + std::to_string(hello.member) + " of " + std::to_string(hello.members));
  }
  if ((hello.member == 0) != (hello.group == 0)) {
    from->refuse("the first member of a group has no group yet, all others have");
  }
  if (from->boolean()) hello.description = read_job_description(*from);
  hello.nonce = from->u64();
  return ended(std::move(hello), from);
}

transport::Message encode(const ClientWelcome& welcome) {
  Writer writer = begin();
  writer.u64(welcome.client);
  writer.u64(welcome.lease_ms);
  return done(writer);
}

ClientWelcome decode_client_welcome(const transport::Message& message) {
  Opened from(message, "welcome of a client");
  const std::uint64_t client = from->u64();
  return ended(ClientWelcome{client, from->u64()}, from);
}

transport::Message encode(const Beat& beat) {
  Writer writer = begin();
  writer.u64(beat.client);
  writer.u64(beat.number);
  write(writer, beat.report);
  return done(writer);
}

Beat decode_beat(const transport::Message& message) {
  Opened from(message, "beat of a client");
  Beat beat;
  beat.client = from->u64();
  beat.number = from->u64();
  beat.report = read_report(*from);
  return ended(beat, from);
}

transport::Message encode(const BeatAnswer& answer) {
  Writer writer = begin();
  writer.boolean(answer.known);
  writer.text(cut_to(answer.ended, kMaxCallText));
  return done(writer);
}

BeatAnswer decode_beat_answer(const transport::Message& message) {
  Opened from(message, "answer to a beat");
  const bool known = from->boolean();
  return ended(BeatAnswer{known, from->text(kMaxCallText)}, from);
}

transport::Message encode(const LeaseRequest& request) {
  Writer writer = begin();
  writer.u64(request.client);
  writer.u64(request.last);
  writer.u32(static_cast<std::uint32_t>(request.finished.size()));
  for (const std::uint64_t number : request.finished) writer.u64(number);
  writer.u64(request.round);
  return done(writer);
}

LeaseRequest decode_lease_request(const transport::Message& message) {
  Opened from(message, "request of a lease");
  LeaseRequest request;
  request.client = from->u64();
  request.last = from->u64();
  request.finished.resize(from->count(8));
  for (std::uint64_t& number : request.finished) number = from->u64();
  request.round = from->u64();
  return ended(std::move(request), from);
}

transport::Message encode(const LeaseAnswer& answer) {
  Writer writer = begin();
  writer.u8(static_cast<std::uint8_t>(answer.kind));
  write(writer, answer.portion);
  writer.u64(answer.wait_ms);
  writer.text(cut_to(answer.why, kMaxCallText));
  return done(writer);
}

LeaseAnswer decode_lease_answer(const transport::Message& message) {
  Opened from(message, "answer about a lease");
  LeaseAnswer answer;
  answer.kind = read_kind(*from, LeaseAnswer::Kind::unknown_client);
  answer.portion = read_portion(*from);
  answer.wait_ms = from->u64();
  answer.why = from->text(kMaxCallText);
  const bool portion = answer.kind == LeaseAnswer::Kind::portion;
  if (portion != (answer.portion.number != 0)) from->refuse("a lease without a portion, or both");
  return ended(std::move(answer), from);
}

transport::Message encode(const ClientRequest& request) {
  Writer writer = begin();
  writer.u64(request.client);
  return done(writer);
}

ClientRequest decode_client_request(const transport::Message& message) {
  Opened from(message, "request of a client");
  return ended(ClientRequest{from->u64()}, from);
}

transport::Message encode(const DropCutRequest& request) {
  Writer writer = begin();
  writer.u64(request.client);
  writer.u64(request.cut);
  return done(writer);
}

DropCutRequest decode_drop_cut(const transport::Message& message) {
  Opened from(message, "request to drop a cut");
  const std::uint64_t client = from->u64();
  return ended(DropCutRequest{client, from->u64()}, from);
}

transport::Message encode(const EndRequest& request) {
  Writer writer = begin();
  writer.u64(request.client);
  writer.text(cut_to(request.why, kMaxCallText));
  return done(writer);
}

EndRequest decode_end(const transport::Message& message) {
  Opened from(message, "request to end the job");
  const std::uint64_t client = from->u64();
  return ended(EndRequest{client, from->text(kMaxCallText)}, from);
}

transport::Message encode(const JobProgress& progress) {
  Writer writer = begin();
  write(writer, progress);
  return done(writer);
}

JobProgress decode_progress(const transport::Message& message) {
  Opened from(message, "progress of the job");
  return ended(read_progress(*from), from);
}

transport::Message encode(const server::Cut& cut) {
  Writer writer = begin();
  writer.u64(cut.id);
  writer.u64(cut.version);
  write(writer, cut.progress);
  return done(writer);
}

server::Cut decode_made_cut(const transport::Message& message) {
  Opened from(message, "cut of all shards");
  server::Cut cut;
  cut.id = from->u64();
  cut.version = from->u64();
  cut.progress = read_progress(*from);
  return ended(std::move(cut), from);
}

transport::Message encode_nothing() {
  Writer writer = begin();
  return done(writer);
}

void decode_nothing(const transport::Message& message) {
  Opened from(message, "call without content");
  from->end();
}

transport::Message encode_text(std::string_view text) {
  Writer writer = begin();
  writer.text(text);
  return done(writer);
}

std::string decode_text(const transport::Message& message) {
  Opened from(message, "text");
  return ended(from->text(std::numeric_limits<std::uint32_t>::max()), from);
}

transport::Message encode(const std::vector<replication::Message>& messages) {
  Writer writer = begin();
  for (const replication::Message& message : messages) writer.bytes(replication::encode(message));
  return done(writer);
}

std::vector<replication::Message> decode_replication(const transport::Message& message) {
  Opened from(message, "messages of replication");
  std::vector<replication::Message> messages;
  while (from->left() != 0) messages.push_back(replication::decode(from->bytes()));
  return messages;
}

}  // namespace convoy::server::calls
