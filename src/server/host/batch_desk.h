// What a shard answers about a batch optimizer's vectors, and gradients of portions until they are
// sealed.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "server/service/batch_calls.h"
#include "server/service/shard_calls.h"
#include "server/state/group_trees.h"
#include "server/state/shard_state.h"

namespace convoy::server::host {

// Of a node that serves; who that is, and what has to be copied or logged, is its host's business.
//
// Threads: any.
class BatchDesk {
 public:
  explicit BatchDesk(const ShardState& state) : state_(state) {}

  calls::Answered dots(const calls::DotsRequest& request) const;
  calls::Answered vector(const calls::VectorRequest& request) const;
  calls::Answered vectors() const;
  calls::Answered missing(const calls::EvaluationRequest& request);

  // The answer; or what was kept, which is GroupAnswer::kept when the backup has it, too.
  struct Kept {
    OpenEvaluation evaluation;
    Element element = Element::f32;
  };
  std::variant<calls::Answered, Kept> add(const calls::GroupRequest& request);
  // The answer; or the command that makes the gradient. Its bytes are what log and backup get,
  // which have no groups to make it of.
  std::variant<calls::Answered, Bytes> seal(const calls::SealRequest& request);
  // To the reply to that.
  static calls::Answered sealed(calls::Answered made);

  // A backup's: what its primary has kept. Whether it is of no more use: false until the state has
  // a definition, which says what slices there are.
  bool keep(const calls::CopyRequest& copy);
  // All that is kept, as requests, for a backup that has nothing.
  struct Copy {
    Kept of;
    transport::Message request;
  };
  std::vector<Copy> copies(std::uint32_t shard) const;
  // After a command on vectors: frees what is over.
  void look();
  // After a snapshot took the place of the state: forgets all, since indices may be others.
  void loaded();
  // Of sums of portions, and their memory that waits for the next ones.
  std::uint64_t bytes() const { return groups_.bytes() + groups_.spare_bytes(); }
  // Nothing where there is no space.
  std::optional<calls::VectorReport> report() const;

 private:
  // The answer, where the evaluation isn't the open one; the open one; or nothing if it is sealed.
  std::variant<std::monostate, Kept, calls::Answered> open(const EvaluationId& id);

  const ShardState& state_;
  GroupTrees groups_;
};

}  // namespace convoy::server::host
