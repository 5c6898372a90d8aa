#include "train/checkpoint/plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "convoy/base/error.h"

namespace convoy::train {
namespace {

using Json = nlohmann::json;

// Smaller slices are not cut.
constexpr std::uint64_t kLeastCut = 256 << 10;

constexpr std::array kPrefixes = {"model/", "optimizer/", "rank/"};  // in files, as TensorGroup

// A slice and who holds it.
struct Owned {
  Slice slice;  // under the name of the stored tensor
  std::size_t tensor = 0;
  std::uint64_t bytes = 0;
  std::vector<std::pair<std::size_t, std::size_t>> held;  // (index in distinct, index there)
};

using TensorKey = std::pair<TensorGroup, std::string>;
using SliceKey = std::tuple<std::vector<std::int64_t>, std::vector<std::int64_t>>;

struct Gathered {
  std::string type;
  std::vector<std::int64_t> shape;
  std::map<SliceKey, Owned> slices;
};

void add(std::map<TensorKey, Gathered>& all, const HeldSlice& held, const std::string& name,
         std::size_t who, std::size_t index) {
  const auto [place, fresh] = all.try_emplace({held.group, name});
  Gathered& tensor = place->second;
  if (fresh) {
    held.slice.check();
    tensor.type = held.type;
    tensor.shape = held.slice.shape;
  }
  if (tensor.type != held.type || tensor.shape != held.slice.shape) {
    throw UsageError("tensor '" + name +
                     "' has another type or shape on some ranks than on others (" + tensor.type +
                     " " + whole_of(name, tensor.shape).text() + ", " + held.type + " " +
                     whole_of(name, held.slice.shape).text() + ")");
  }
  if (held.slice.elements() == 0) return;
  Owned& owned = tensor.slices[{held.slice.begin, held.slice.size}];
  if (owned.held.empty()) {
    owned.slice = held.slice;
    owned.slice.tensor = name;
    owned.slice.check();
    owned.bytes = static_cast<std::uint64_t>(held.slice.elements()) * size_of_type(held.type);
  }
  owned.held.push_back({who, index});
}

void check_tiling(const std::string& name, const Gathered& tensor) {
  std::vector<Slice> slices;
  for (const auto& [key, owned] : tensor.slices) slices.push_back(owned.slice);
  const auto problem = problem_of_tiling(whole_of(name, tensor.shape), slices);
  if (problem) throw UsageError("a checkpoint can't be written: " + *problem);
}

// Cuts what the same ranks hold, in a line, at even distances, and gives each its part.
class Dealer {
 public:
  Dealer(Plan& plan, std::vector<int> ranks, std::uint64_t total)
      : plan_(plan), ranks_(std::move(ranks)), total_(total) {}

  void deal(const Owned& owned, const std::vector<std::size_t>& of_rank) {
    const std::uint64_t begin = position_, end = position_ + owned.bytes;
    position_ = end;
    if (owned.bytes < kLeastCut) {
      give(owned, owned.slice, holder_of(begin + owned.bytes / 2), of_rank);
      return;
    }
    // The first dimension that can be cut.
    std::size_t d = 0;
    while (d + 1 < owned.slice.size.size() && owned.slice.size[d] == 1) ++d;
    const auto rows = static_cast<std::uint64_t>(owned.slice.size[d]);
    const std::uint64_t row_bytes = owned.bytes / rows;
    std::uint64_t done = 0;
    for (std::size_t holder = holder_of(begin); done < rows; ++holder) {
      // Where this holder's part of the line ends, in rows.
      const std::uint64_t until = std::min(end_of(holder), end) - begin;
      const bool last = end_of(holder) >= end || holder + 1 == ranks_.size();
      const std::uint64_t row = last ? rows : (until + row_bytes / 2) / row_bytes;
      if (row <= done) continue;
      Slice piece = owned.slice;
      piece.begin[d] += static_cast<std::int64_t>(done);
      piece.size[d] = static_cast<std::int64_t>(row - done);
      give(owned, piece, holder, of_rank);
      done = row;
    }
  }

 private:
  std::uint64_t end_of(std::size_t holder) const {
    const std::uint64_t parts = ranks_.size();
    return total_ / parts * (holder + 1) + total_ % parts * (holder + 1) / parts;
  }
  // Asked with positions that don't decrease.
  std::size_t holder_of(std::uint64_t position) {
    while (holder_ + 1 < ranks_.size() && end_of(holder_) <= position) ++holder_;
    return holder_;
  }

  void give(const Owned& owned, const Slice& piece, std::size_t holder,
            const std::vector<std::size_t>& of_rank) {
    const int rank = ranks_[holder];
    const std::size_t who = of_rank[static_cast<std::size_t>(rank)];
    const auto held = std::find_if(owned.held.begin(), owned.held.end(),
                                   [who](const auto& h) { return h.first == who; });
    StoredTensor& tensor = plan_.tensors[owned.tensor];
    tensor.slices.push_back({part_name(rank), piece.begin, piece.size, 0, std::nullopt});
    plan_.parts[static_cast<std::size_t>(rank)].slices.push_back(
        {held->second, owned.tensor, tensor.slices.size() - 1});
  }

  Plan& plan_;
  std::vector<int> ranks_;
  std::uint64_t total_;
  std::uint64_t position_ = 0;
  std::size_t holder_ = 0;
};

// "model/fc.weight[0:512, 0:2048]"; without the bounds for a whole tensor.
std::string name_in_file(const StoredTensor& tensor, const StoredSlice& stored) {
  std::string name = kPrefixes[static_cast<std::size_t>(tensor.group)] + tensor.name;
  if (stored.size == tensor.shape) return name;
  for (std::size_t d = 0; d < stored.size.size(); ++d) {
    name += (d == 0 ? "[" : ", ") + std::to_string(stored.begin[d]) + ":" +
            std::to_string(stored.begin[d] + stored.size[d]);
  }
  return name + "]";
}

// Where everything lies in the file of a rank.
void lay_out(Plan& plan, int rank) {
  PlannedPart& part = plan.parts[static_cast<std::size_t>(rank)];
  if (part.slices.empty()) return;
  std::vector<TensorShape> shapes;
  for (const PlannedSlice& planned : part.slices) {
    const StoredTensor& tensor = plan.tensors[planned.tensor];
    const StoredSlice& stored = tensor.slices[planned.stored];
    shapes.push_back({name_in_file(tensor, stored), tensor.type, stored.size});
  }
  part.layout = layout_of_safetensors(part_name(rank), shapes, {{"format", "pt"}});
  std::vector<PlannedSlice> ordered;
  for (const std::size_t i : part.layout.order) {
    const PlannedSlice& planned = part.slices[i];
    StoredTensor& tensor = plan.tensors[planned.tensor];
    tensor.slices[planned.stored].offset = part.layout.offsets[i];
    part.bytes.push_back(tensor.bytes(tensor.slices[planned.stored]));
    ordered.push_back(planned);
  }
  part.slices = std::move(ordered);
}

}  // namespace

std::string part_name(int rank) { return "part-" + std::to_string(rank) + ".safetensors"; }

std::string to_text(const std::vector<HeldSlice>& held) {
  Json all = Json::array();
  for (const HeldSlice& h : held) {
    all.push_back({static_cast<int>(h.group), h.type, h.slice.tensor, h.slice.shape, h.slice.begin,
                   h.slice.size});
  }
  return all.dump();
}

std::vector<HeldSlice> held_from_text(std::string_view text) {
  std::vector<HeldSlice> held;
  for (const Json& h : Json::parse(text)) {
    using Numbers = std::vector<std::int64_t>;
    held.push_back({static_cast<TensorGroup>(h.at(0).get<int>()), h.at(1).get<std::string>(),
                    Slice{h.at(2).get<std::string>(), h.at(3).get<Numbers>(),
                          h.at(4).get<Numbers>(), h.at(5).get<Numbers>()}});
  }
  return held;
}

Plan plan_checkpoint(const std::vector<std::vector<HeldSlice>>& distinct,
                     const std::vector<std::size_t>& of_rank) {
  std::map<TensorKey, Gathered> all;
  std::vector<std::vector<int>> ranks_of(distinct.size());
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank)
    ranks_of[of_rank[rank]].push_back(static_cast<int>(rank));
  // What is a rank's own has no other holder: its place says whose it is.
  std::map<TensorKey, int> owner;
  for (std::size_t who = 0; who < distinct.size(); ++who) {
    for (std::size_t i = 0; i < distinct[who].size(); ++i) {
      const HeldSlice& held = distinct[who][i];
      if (held.group != TensorGroup::rank) {
        add(all, held, held.slice.tensor, who, i);
        continue;
      }
      for (const int rank : ranks_of[who]) {
        const std::string name = std::to_string(rank) + "/" + held.slice.tensor;
        add(all, held, name, who, i);
        owner[{held.group, name}] = rank;
      }
    }
  }
  Plan plan;
  plan.parts.resize(of_rank.size());
  std::map<std::vector<int>, std::vector<const Owned*>> lines;  // by holders
  for (auto& [key, tensor] : all) {
    check_tiling(key.second, tensor);
    plan.tensors.push_back({key.first, key.second, tensor.type, tensor.shape, {}});
    for (auto& [bounds, owned] : tensor.slices) {
      owned.tensor = plan.tensors.size() - 1;
      std::vector<int> holders;
      if (key.first == TensorGroup::rank) {
        holders = {owner.at(key)};
      } else {
        for (const auto& [who, index] : owned.held)
          holders.insert(holders.end(), ranks_of[who].begin(), ranks_of[who].end());
        std::sort(holders.begin(), holders.end());
      }
      lines[holders].push_back(&owned);
    }
  }
  for (const auto& [holders, line] : lines) {
    std::uint64_t total = 0;
    for (const Owned* owned : line) total += owned->bytes;
    Dealer dealer(plan, holders, total);
    for (const Owned* owned : line) dealer.deal(*owned, of_rank);
  }
  for (int rank = 0; rank < static_cast<int>(of_rank.size()); ++rank) lay_out(plan, rank);
  return plan;
}

}  // namespace convoy::train
