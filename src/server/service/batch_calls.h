// What clients ask a shard for of a batch optimizer's vectors, beside commands: methods of the
// transport and their bytes (docs/server-format.md). Requests and answers begin as those of
// shard_calls.h. Nothing of this is in a shard's log.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "convoy/server/batch.h"
#include "server/service/shard_calls.h"
#include "server/state/group_trees.h"

namespace convoy::server::calls {

// The shard's parts of scalar products. Request: DotsRequest. Content: an exact sum for each.
inline constexpr std::string_view kDots = "shard.dots";
// Values of a vector. Request: VectorRequest. Content: u8 element, then the values, one range after
// another.
inline constexpr std::string_view kVector = "shard.vector";
// Adds the gradient of a group of portions, or a process's part of it. Request: GroupRequest.
// Content: u8 GroupAnswer.
inline constexpr std::string_view kGroup = "shard.group";
// Makes the gradient of an evaluation, if all portions are there. Request: SealRequest. Content:
// Sealed.
inline constexpr std::string_view kSeal = "shard.seal";
// Which portions are missing. Request: EvaluationRequest. Content: Sealed.
inline constexpr std::string_view kMissing = "shard.missing";
// Which vectors there are. Request: nothing more. Content: BatchStatus.
inline constexpr std::string_view kVectors = "shard.vectors";
// A group that the primary has kept, for its backup. Request: CopyRequest. Answered at once, empty.
inline constexpr std::string_view kGroupCopy = "server.group";

inline constexpr std::uint32_t kMostDots = 65536;  // of a history of 1000 steps it is some 6000
struct DotsRequest {
  std::uint32_t shard = 0;
  std::uint64_t after = 0;  // busy until the command of this index is applied
  std::vector<optim::VectorPair> pairs;
};
transport::Message encode(const DotsRequest& request);
DotsRequest decode_dots(const transport::Message& message);
transport::Message encode_sums(const std::vector<ExactSum>& sums);
std::vector<ExactSum> decode_sums(const transport::Message& content);

struct VectorRange {
  std::uint32_t slice = 0;
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};
struct VectorRequest {
  std::uint32_t shard = 0;
  std::uint64_t after = 0;
  optim::VectorName name;
  std::vector<VectorRange> ranges;
};
transport::Message encode(const VectorRequest& request);
VectorRequest decode_vector(const transport::Message& message);
struct VectorValues {
  Element element = Element::f32;
  transport::Message values;
};
transport::Message encode(const VectorValues& values);
VectorValues decode_vector_values(const transport::Message& content);

struct GroupRequest {
  std::uint32_t shard = 0;
  EvaluationId id;
  PortionGroup group;
  std::vector<BatchSlice> slices;  // views into the message
};
// What stands in front of each slice's values, and behind the last ones.
std::vector<Bytes> group_pieces(const GroupRequest& request);
GroupRequest decode_group(std::span<const std::byte> message);
transport::Message encode(GroupAnswer answer);
GroupAnswer decode_group_answer(const transport::Message& content);

struct SealRequest {
  std::uint32_t shard = 0;
  EvaluationId id;
  double scale = 1;
  std::vector<optim::Term> also;
};
transport::Message encode(const SealRequest& request);
SealRequest decode_seal(const transport::Message& message);

struct EvaluationRequest {
  std::uint32_t shard = 0;
  EvaluationId id;
};
transport::Message encode(const EvaluationRequest& request);
EvaluationRequest decode_evaluation(const transport::Message& message);

struct Sealed {
  bool sealed = false;
  std::vector<PortionRange> missing;
};
transport::Message encode(const Sealed& sealed);
Sealed decode_sealed(const transport::Message& content);

transport::Message encode(const BatchStatus& status);
BatchStatus decode_batch_status(const transport::Message& content);

struct CopyRequest {
  std::uint64_t epoch = 0;  // of the primary
  OpenEvaluation evaluation;
  Element element = Element::f32;
  GroupRequest group;
};
// `group`: the request that the primary got, as it is.
transport::Message copy_request(const CopyRequest& head, const transport::Message& group);
CopyRequest decode_copy(std::span<const std::byte> message);

}  // namespace convoy::server::calls
