#include "train/fault/found.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace convoy::train {
namespace {

// What ranks tell each other of what they have found.
struct ToldFault {
  std::int64_t found = 0;
  std::int64_t part = 0, order = 0, kind = 0;
};

// "'features.3' (Conv2d)"
std::string layer_of_fault(const FaultPlace& place) {
  if (place.name.empty()) return "the network itself (" + place.type + ")";
  return "'" + place.name + "' (" + place.type + ")";
}

// Where an operation is that belongs to no layer.
std::string behind_which(const FaultPlace& place) {
  return place.type.empty() ? ", before any layer with parameters"
                            : ", behind the layer " + layer_of_fault(place);
}

std::string text_of_input(const FaultPlace& place) {
  const std::string text = "an input isn't finite: '" + place.operation + "' of ";
  if (place.name.empty()) return text + "these samples";
  return text + place.name + (place.type.empty() ? "" : " (" + place.type + ")");
}

std::string text_of_activation(const FaultPlace& place) {
  if (!place.behind) return "the first layer whose output isn't finite is " + layer_of_fault(place);
  const std::string which =
      place.operation.empty() ? "one" : "that of the operation '" + place.operation + "'";
  return "the first output that isn't finite is " + which + behind_which(place);
}

std::string text_of_loss(const FaultPlace& place) {
  const std::string from =
      place.operation.empty() ? "" : ", from its operation '" + place.operation + "' on";
  return "the network's outputs are finite, and the loss of them isn't" + from;
}

std::string text_of_gradient(const FaultPlace& place) {
  const std::string node = place.operation.empty() ? "" : ", at " + place.operation;
  if (place.in_loss) return "the first gradient that isn't finite is one of the loss" + node;
  if (!place.behind)
    return "the first layer whose gradient isn't finite is " + layer_of_fault(place) + node;
  return "the first gradient that isn't finite is that of an operation" + behind_which(place) +
         node;
}

std::string text_of_origin(const FaultOrigin& origin) {
  switch (origin.kind) {
    case FaultKind::parameter:
      return "the parameter '" + origin.place.name + "' was not finite before it";
    case FaultKind::input:
      return text_of_input(origin.place);
    case FaultKind::activation:
      return text_of_activation(origin.place);
    case FaultKind::loss:
      return text_of_loss(origin.place);
    case FaultKind::gradient:
      return text_of_gradient(origin.place);
  }
  return "";
}

// Short, and never empty.
std::string where_of_origin(const FaultOrigin& origin) {
  const FaultPlace& place = origin.place;
  if (place.in_loss) return "loss";
  if (!place.behind && !place.name.empty()) return place.name;
  if (!place.operation.empty()) return place.operation;
  return place.type.empty() ? "an operation" : place.type;
}

}  // namespace

FoundFault found_fault(const comm::Communicator& ranks, const std::optional<FaultOrigin>& own,
                       bool again, bool parts) {
  if (!again) return {.text = "run once more, it did not happen again"};
  ToldFault mine;
  if (own) mine = {1, own->part, own->order, static_cast<std::int64_t>(own->kind)};
  const std::vector<ToldFault> told = ranks.gather(mine);
  std::optional<std::size_t> first;
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    if (told[rank].found == 0) continue;
    if (!first || std::tie(told[rank].part, told[rank].order) <
                      std::tie(told[*first].part, told[*first].order))
      first = rank;
  }
  if (!first) {
    return {.text =
                "run once more, it is so again, and no output, and no gradient on its way, was "
                "found that is not finite: it may be a sum of gradients, or their norm"};
  }
  const int rank = static_cast<int>(*first);
  const bool says = ranks.rank() == rank;
  FoundFault fault;
  fault.text = "run once more, " + ranks.broadcast_text(says ? text_of_origin(*own) : "", rank);
  fault.where = ranks.broadcast_text(says ? where_of_origin(*own) : "", rank);
  const auto kind = static_cast<FaultKind>(told[*first].kind);
  fault.of_data = kind == FaultKind::input;
  if (kind == FaultKind::parameter) return fault;  // of every rank, and of all micro-batches
  if (parts) fault.text += ", in micro-batch " + std::to_string(told[*first].part + 1);
  if (ranks.size() > 1) fault.text += ", on rank " + std::to_string(rank);
  return fault;
}

}  // namespace convoy::train
