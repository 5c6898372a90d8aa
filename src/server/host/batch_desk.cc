#include "server/host/batch_desk.h"

#include <algorithm>
#include <string>

#include "convoy/base/error.h"
#include "server/state/batch_commands.h"
#include "server/state/commands.h"

namespace convoy::server::host {
namespace {

using calls::Answered;
using calls::Outcome;

Answered desk_answer(Outcome outcome, std::string reason) {
  return {outcome, 0, std::move(reason), {}};
}

Answered desk_content(transport::Message content) {
  return {Outcome::done, 0, {}, std::move(content)};
}

bool is_yet_to_come(const BatchStatus& status, const EvaluationId& id) {
  return !status.element || !status.newest || id > *status.newest;
}

Answered not_begun(const EvaluationId& id) {
  return desk_answer(Outcome::busy,
                     "evaluation " + to_string(id) + " has not begun on this shard yet");
}

// Behind commands that a predecessor may have acknowledged.
std::optional<Answered> is_behind(const ShardState& state, std::uint64_t index) {
  if (state.applied() >= index) return std::nullopt;
  return desk_answer(Outcome::busy, "command " + std::to_string(index) + " is not applied yet");
}

template <typename T>
void combine_array(const std::vector<double>& factors, const std::vector<const BatchArray*>& from,
                   BatchArray& to) {
  std::vector<const T*> vectors;
  for (const BatchArray* array : from) vectors.push_back(array->data<T>());
  optim::combine_slices<T>(factors, vectors, to.data<T>(), to.size());
}

}  // namespace

// --- what changes nothing ---

Answered BatchDesk::dots(const calls::DotsRequest& request) const {
  if (auto answer = is_behind(state_, request.after)) return *answer;
  try {
    return desk_content(calls::encode_sums(state_.dots(request.pairs)));
  } catch (const UsageError& error) {
    return desk_answer(Outcome::refused, error.what());
  }
}

Answered BatchDesk::vector(const calls::VectorRequest& request) const {
  if (auto answer = is_behind(state_, request.after)) return *answer;
  const BatchStatus status = state_.batch();
  try {
    const BatchVectorPtr vector = state_.vector(request.name);
    calls::VectorValues values;
    values.element = *status.element;
    const std::size_t each = size_of(values.element);
    for (const calls::VectorRange& range : request.ranges) {
      const bool there = range.slice < vector->slices.size() && vector->slices[range.slice];
      const std::size_t size = there ? vector->slices[range.slice]->size() : 0;
      if (!there || range.begin > size || range.size > size - range.begin) {
        throw UsageError("fetch of '" + to_string(request.name) +
                         "': " + std::to_string(range.size) + " elements from " +
                         std::to_string(range.begin) + " of slice " + std::to_string(range.slice) +
                         ", which has " + std::to_string(size));
      }
      const auto bytes = vector->slices[range.slice]->bytes();
      values.values.append({bytes.subspan(range.begin * each, range.size * each), vector});
    }
    return desk_content(calls::encode(values));
  } catch (const UsageError& error) {
    const EvaluationId id{request.name.iteration, request.name.evaluation};
    const bool coming =
        request.name.role == optim::VectorRole::weights && is_yet_to_come(status, id);
    return desk_answer(coming ? Outcome::busy : Outcome::refused, error.what());
  }
}

Answered BatchDesk::vectors() const { return desk_content(calls::encode(state_.batch())); }

// --- groups ---

std::variant<std::monostate, BatchDesk::Kept, Answered> BatchDesk::open(const EvaluationId& id) {
  const BatchStatus status = state_.batch();
  const auto& there = status.vectors;
  if (std::find(there.begin(), there.end(), gradient_of(id)) != there.end()) return {};
  if (is_yet_to_come(status, id)) return not_begun(id);
  if (status.open->id != id) {
    return desk_answer(Outcome::refused, "evaluation " + to_string(id) + " has ended");
  }
  groups_.open(*status.open, *status.element, state_.space_sizes());
  return Kept{*status.open, *status.element};
}

std::variant<Answered, BatchDesk::Kept> BatchDesk::add(const calls::GroupRequest& request) {
  const auto opened = open(request.id);
  if (const auto* answer = std::get_if<Answered>(&opened)) {
    if (answer->outcome == Outcome::busy) return *answer;
    return desk_content(calls::encode(GroupAnswer::ended));
  }
  const auto* kept = std::get_if<Kept>(&opened);
  if (kept == nullptr) return desk_content(calls::encode(GroupAnswer::had));
  try {
    const GroupAnswer answer = groups_.add(request.id, request.group, request.slices);
    if (answer == GroupAnswer::kept) return *kept;
    return desk_content(calls::encode(answer));
  } catch (const UsageError& error) {
    // Another one may have been opened, or this one sealed, since the state was looked at.
    const BatchStatus now = state_.batch();
    if (now.open != kept->evaluation || now.sealed) return not_begun(request.id);
    // Its gradient was made, and has been freed.
    if (groups_.is_closed(kept->evaluation)) return desk_content(calls::encode(GroupAnswer::had));
    return desk_answer(Outcome::refused, error.what());
  }
}

bool BatchDesk::keep(const calls::CopyRequest& copy) {
  if (!state_.definition()) return false;
  try {
    groups_.open(copy.evaluation, copy.element, state_.space_sizes());
    groups_.keep(copy.evaluation.id, copy.group.group, copy.group.slices);
  } catch (const UsageError&) {
    // It is over here already. What a node lacks after all is computed again.
  }
  return true;
}

std::vector<BatchDesk::Copy> BatchDesk::copies(std::uint32_t shard) const {
  std::vector<Copy> copies;
  for (const GroupTrees::Copy& node : groups_.nodes()) {
    const BatchSlice slice{node.slice, {node.element, false, node.sum->size(), {}}};
    Copy copy{{node.evaluation, node.element},
              transport::Message::of(
                  calls::group_pieces({shard, node.evaluation.id, node.group, {slice}}).front())};
    copy.request.append({node.sum->bytes(), node.sum});
    copies.push_back(std::move(copy));
  }
  return copies;
}

std::optional<calls::VectorReport> BatchDesk::report() const {
  const BatchStatus status = state_.batch();
  if (!status.element) return std::nullopt;
  calls::VectorReport report;
  report.vectors = status.vectors.size();
  report.vector_bytes = status.bytes;
  report.group_bytes = groups_.bytes();
  if (status.open) {
    report.portions_added = status.open->portions;
    if (status.sealed || groups_.is_closed(*status.open)) return report;
    for (const PortionRange& range : groups_.missing(status.open->id, status.open->portions))
      report.portions_added -= range.end - range.begin;
  }
  return report;
}

void BatchDesk::look() {
  const BatchStatus status = state_.batch();
  if (status.open) groups_.close(status.sealed ? status.open->index : status.open->index - 1);
}

void BatchDesk::loaded() {
  groups_.forget();
  look();
}

// --- seals ---

Answered BatchDesk::missing(const calls::EvaluationRequest& request) {
  const auto opened = open(request.id);
  if (const auto* answer = std::get_if<Answered>(&opened)) return *answer;
  calls::Sealed sealed;
  if (const auto* kept = std::get_if<Kept>(&opened)) {
    sealed.missing = groups_.missing(request.id, kept->evaluation.portions);
  } else {
    sealed.sealed = true;
  }
  return desk_content(calls::encode(sealed));
}

std::variant<Answered, Bytes> BatchDesk::seal(const calls::SealRequest& request) {
  const auto opened = open(request.id);
  if (const auto* answer = std::get_if<Answered>(&opened)) return *answer;
  const auto* kept = std::get_if<Kept>(&opened);
  if (kept == nullptr) return desk_content(calls::encode(calls::Sealed{true, {}}));
  const auto roots = groups_.roots(request.id);
  if (!roots) {
    return desk_content(calls::encode(
        calls::Sealed{false, groups_.missing(request.id, kept->evaluation.portions)}));
  }
  try {
    std::vector<double> factors = {request.scale};
    std::vector<BatchVectorPtr> also;
    for (const optim::Term& term : request.also) {
      factors.push_back(term.factor);
      also.push_back(state_.vector(term.vector));
    }
    std::vector<std::unique_ptr<BatchArray>> sums;
    std::vector<BatchSlice> slices;
    const auto definition = state_.definition();
    for (std::uint32_t i = 0; i < definition->slices.size(); ++i) {
      const SliceDefinition& slice = definition->slices[i];
      if (!slice.rule) continue;
      sums.push_back(std::make_unique<BatchArray>(kept->element, slice.size));
      if (slice.size > 0) {
        std::vector<const BatchArray*> from = {(*roots)[i].get()};
        for (const BatchVectorPtr& vector : also) from.push_back(vector->slices[i].get());
        if (kept->element == Element::f64) {
          combine_array<double>(factors, from, *sums.back());
        } else {
          combine_array<float>(factors, from, *sums.back());
        }
      }
      slices.push_back(
          {i, {kept->element, false, slice.size, std::as_const(*sums.back()).bytes()}});
    }
    return gradient_command(request.id, slices);
  } catch (const UsageError& error) {
    return desk_answer(Outcome::refused, error.what());
  }
}

Answered BatchDesk::sealed(Answered made) {
  if (made.outcome != Outcome::done) return made;
  try {
    const Reply reply = decode_reply(made.content.gather());
    if (reply.status != Status::done) return desk_answer(Outcome::refused, reply.message);
    return desk_content(calls::encode(calls::Sealed{true, {}}));
  } catch (const UsageError& error) {
    return desk_answer(Outcome::refused, error.what());
  }
}

}  // namespace convoy::server::host
