#include "comm/collectives/reproducible/allreduce.h"

#include <algorithm>
#include <functional>

#include "comm/collectives/reproducible/kernels.h"
#include "comm/collectives/ring/stream.h"
#include "comm/shared_memory/reduction.h"
#include "convoy/comm/communicator.h"

namespace convoy::comm {
namespace {

constexpr std::size_t kBlock = std::size_t{4} << 20;  // elements
constexpr std::size_t kPiece = 16 << 10;              // elements

// A loop over elements, in pieces of some ten microseconds: others may have the engine in between.
class InPieces final : public Waiting {
 public:
  // `work` does elements [first, first + count).
  using Work = std::function<void(std::size_t first, std::size_t count)>;
  InPieces(std::size_t count, Work work) : count_(count), work_(std::move(work)) {}

  bool advance() override {
    if (done()) return false;
    const std::size_t part = std::min(kPiece, count_ - at_);
    work_(at_, part);
    at_ += part;
    return true;
  }
  bool done() const override { return at_ == count_; }
  void missing(std::vector<int>&) const override {}

 private:
  std::size_t count_;
  std::size_t at_ = 0;
  Work work_;
};

// The floats of a block, as whole numbers and back.
class Conversion {
 public:
  // For so many contributions of all ranks, and blocks of up to `most` elements.
  Conversion(Type type, ReduceOp op, int contributions, std::size_t most)
      : op_(op), grid_(grid_of(type, contributions)), divisor_(divisor_of(op, contributions)) {
    if (!adds()) {
      grid_.whole = ordered_type(type);
      grid_.parts = 1;
    } else {
      exponents_ = memory(most * size_of(grid_.exponent));
    }
    if (!grid_.in_place())
      whole_ = memory(most * static_cast<std::size_t>(grid_.parts) * size_of(grid_.whole));
  }

  bool adds() const { return op_ == ReduceOp::sum || op_ == ReduceOp::average; }
  // Of the whole numbers.
  ReduceOp op() const { return adds() ? ReduceOp::sum : op_; }
  int parts() const { return grid_.parts; }
  Buffer exponents(Buffer block) { return {exponents_.get(), block.count, grid_.exponent}; }
  Buffer whole(Buffer block, int part) {
    if (grid_.in_place()) return {block.data, block.count, grid_.whole};
    return slice({whole_.get(), block.count * static_cast<std::size_t>(grid_.parts), grid_.whole},
                 static_cast<std::size_t>(part) * block.count, block.count);
  }

  void find(Buffer block, std::size_t first, std::size_t count) {
    find_exponents(grid_, slice(block, first, count).data, exponents_at(block, first), count);
  }
  void convert(Buffer block, std::size_t first, std::size_t count) {
    const void* const data = slice(block, first, count).data;
    const WholeNumbers numbers = numbers_at(block, first);
    if (adds())
      to_whole(grid_, data, exponents_at(block, first), numbers, count);
    else
      to_ordered(grid_.type, op_, data, numbers[0], count);
  }
  // The same of another contribution of this rank, `other`, in addition to what is there: at most
  // kPiece elements at a time.
  void find_more(Buffer block, Buffer other, std::size_t first, std::size_t count) {
    std::byte* const more = scratch();
    find_exponents(grid_, slice(other, first, count).data, more, count);
    reduce(ReduceOp::max, grid_.exponent, exponents_at(block, first), more, count);
  }
  void convert_more(Buffer block, Buffer other, std::size_t first, std::size_t count) {
    const void* const data = slice(other, first, count).data;
    const WholeNumbers numbers = numbers_at(block, first);
    WholeNumbers more{};
    for (std::size_t part = 0; part < parts_in_memory(); ++part)
      more[part] = scratch() + part * kPiece * size_of(grid_.whole);
    if (adds())
      to_whole(grid_, data, exponents_at(block, first), more, count);
    else
      to_ordered(grid_.type, op_, data, more[0], count);
    for (std::size_t part = 0; part < parts_in_memory(); ++part)
      reduce(op(), grid_.whole, numbers[part], more[part], count);
  }
  void convert_back(Buffer block, std::size_t first, std::size_t count) {
    void* const data = slice(block, first, count).data;
    const WholeNumbers numbers = numbers_at(block, first);
    if (adds())
      from_whole(grid_, numbers, exponents_at(block, first), data, count, divisor_);
    else
      from_ordered(grid_.type, numbers[0], data, count);
  }

 private:
  using Memory = std::unique_ptr<std::byte[]>;
  static Memory memory(std::size_t bytes) {
    return std::make_unique_for_overwrite<std::byte[]>(bytes);
  }
  void* exponents_at(Buffer block, std::size_t first) {
    return slice(exponents(block), first, 0).data;
  }
  WholeNumbers numbers_at(Buffer block, std::size_t first) {
    WholeNumbers numbers{};
    for (int part = 0; part < grid_.parts; ++part) {
      numbers[static_cast<std::size_t>(part)] =
          static_cast<std::byte*>(slice(whole(block, part), first, 0).data);
    }
    return numbers;
  }

  std::size_t parts_in_memory() const { return static_cast<std::size_t>(grid_.parts); }
  // What a piece of another contribution becomes; its exponents are no longer than whole numbers.
  std::byte* scratch() {
    if (!scratch_) scratch_ = memory(kPiece * parts_in_memory() * size_of(grid_.whole));
    return scratch_.get();
  }

  ReduceOp op_;
  Grid grid_;
  int divisor_;
  Memory exponents_;
  Memory whole_;    // null: in place
  Memory scratch_;  // null: not needed so far
};

using Step = void (Conversion::*)(Buffer, std::size_t, std::size_t);

Task in_pieces(Conversion& conversion, Step step, Buffer block, Chunk part) {
  InPieces work(part.count, [&, block, part](std::size_t first, std::size_t count) {
    (conversion.*step)(block, part.begin + first, count);
  });
  co_await end_of(work);
}

Task in_pieces(std::size_t count, InPieces::Work piece) {
  InPieces work(count, std::move(piece));
  co_await end_of(work);
}

// Does it for elements of the first contribution and as many of another one.
using StepOfMore = void (Conversion::*)(Buffer, Buffer, std::size_t, std::size_t);

Task in_pieces(Conversion& conversion, StepOfMore step, Buffer block, Buffer other) {
  const auto piece = [&conversion, step, block, other](std::size_t first, std::size_t count) {
    (conversion.*step)(block, other, first, count);
  };
  return in_pieces(block.count, piece);
}

Task allreduce_in_shared_memory(Node& node, Call call, std::uint64_t id, Buffer data, ReduceOp op,
                                Turn turn) {
  SharedReduction reduction(node, call, id, data, op, 1, true, reduce_all, turn.get());
  co_await end_of(reduction);
}

// One of several reductions of an operation that has a turn, where its algorithm needs one.
Task step_of_operation(Io& io, const Locality& locality, const Call& call, Buffer data, ReduceOp op,
                       const AllreduceChoice& choice, const Turn& turn) {
  if (choice.algorithm != AllreduceAlgorithm::shared)
    return allreduce(io, locality, call, data, op, choice, turn);
  const std::uint64_t id = locality.node->board().next_id(call.match);
  return allreduce_in_shared_memory(*locality.node, call, id, data, op, turn);
}

Task allreduce_by_whole_numbers(Io& io, const Locality& locality, Call call,
                                std::vector<Buffer> contributions, ReduceOp op,
                                AllreduceChoice choice, Turn turn) {
  const Buffer data = contributions.front();
  const std::size_t most = std::min(data.count, kBlock);
  Conversion conversion(data.type, op, io.size() * static_cast<int>(contributions.size()), most);
  for (std::size_t begin = 0; begin < data.count; begin += most) {
    const Buffer block = slice(data, begin, std::min(most, data.count - begin));
    const Chunk everything{0, block.count};
    if (conversion.adds()) {
      Task find = in_pieces(conversion, &Conversion::find, block, everything);
      co_await find;
      for (std::size_t i = 1; i < contributions.size(); ++i) {
        Task more = in_pieces(conversion, &Conversion::find_more, block,
                              slice(contributions[i], begin, block.count));
        co_await more;
      }
      Task most_of_all = step_of_operation(io, locality, call, conversion.exponents(block),
                                           ReduceOp::max, choice, turn);
      co_await most_of_all;
    }
    Task convert = in_pieces(conversion, &Conversion::convert, block, everything);
    co_await convert;
    for (std::size_t i = 1; i < contributions.size(); ++i) {
      Task more = in_pieces(conversion, &Conversion::convert_more, block,
                            slice(contributions[i], begin, block.count));
      co_await more;
    }
    for (int part = 0; part < conversion.parts(); ++part) {
      Task reduction = step_of_operation(io, locality, call, conversion.whole(block, part),
                                         conversion.op(), choice, turn);
      co_await reduction;
    }
    Task convert_back = in_pieces(conversion, &Conversion::convert_back, block, everything);
    co_await convert_back;
  }
}

Task reduce_scatter_by_whole_numbers(Io& io, Buffer data, ReduceOp op) {
  Conversion conversion(data.type, op, io.size(), data.count);
  const Chunk everything{0, data.count};
  if (conversion.adds()) {
    Task find = in_pieces(conversion, &Conversion::find, data, everything);
    co_await find;
    Task most = ring_stream(io, conversion.exponents(data), ReduceOp::max, RingPhases::both);
    co_await most;
  }
  Task convert = in_pieces(conversion, &Conversion::convert, data, everything);
  co_await convert;
  for (int part = 0; part < conversion.parts(); ++part) {
    Task reduction =
        ring_stream(io, conversion.whole(data, part), conversion.op(), RingPhases::reduce_scatter);
    co_await reduction;
  }
  Task convert_back = in_pieces(conversion, &Conversion::convert_back, data,
                                chunk(data.count, io.size(), io.rank()));
  co_await convert_back;
}

// All contributions of this rank, into the first.
Task reduce_own(std::vector<Buffer> contributions, ReduceOp op, int divisor) {
  const auto piece = [contributions, op, divisor](std::size_t first, std::size_t count) {
    std::vector<const void*> sources;
    for (const Buffer& one : contributions) sources.push_back(slice(one, first, count).data);
    const Buffer into = slice(contributions.front(), first, count);
    reduce_reproducibly(op, into.type, into.data, sources, count, divisor);
  };
  InPieces work(contributions.front().count, piece);
  co_await end_of(work);
}

// Whole numbers add up to the same in any order.
Task reduce_own_and_others(Io& io, const Locality& locality, Call call,
                           std::vector<Buffer> contributions, ReduceOp op, AllreduceChoice choice,
                           Turn turn) {
  Task own = reduce_own(contributions, op, 1);
  co_await own;
  const Buffer data = contributions.front();
  if (data.count == 0) co_return;
  Task others = step_of_operation(io, locality, call, data, op, choice, turn);
  co_await others;
}

Task nothing() { co_return; }

}  // namespace

Task allreduce_reproducible(Io& io, const Locality& locality, const Call& call, Buffer data,
                            ReduceOp op, const AllreduceChoice& choice) {
  if (choice.algorithm == AllreduceAlgorithm::shared)
    return allreduce_shared(*locality.node, call, data, op, reduce_reproducibly);
  if (!is_floating(data.type) || io.size() == 1)
    return allreduce(io, locality, call, data, op, choice);
  const bool hierarchical = choice.algorithm == AllreduceAlgorithm::hierarchical;
  return allreduce_by_whole_numbers(io, locality, call, {data}, op, choice,
                                    hierarchical ? take_turn(locality) : nullptr);
}

Task allreduce_of_several(Io& io, const Locality& locality, const Call& call,
                          const std::vector<Buffer>& contributions, ReduceOp op,
                          const AllreduceChoice& choice) {
  const auto own = static_cast<int>(contributions.size());
  if (io.size() == 1 && own == 1) return nothing();
  if (io.size() == 1) return reduce_own(contributions, op, divisor_of(op, own));
  const bool in_memory = choice.algorithm == AllreduceAlgorithm::shared ||
                         choice.algorithm == AllreduceAlgorithm::hierarchical;
  Turn turn = in_memory ? take_turn(locality) : nullptr;
  if (!is_floating(contributions.front().type))
    return reduce_own_and_others(io, locality, call, contributions, op, choice, std::move(turn));
  return allreduce_by_whole_numbers(io, locality, call, contributions, op, choice, std::move(turn));
}

Task reduce_scatter_reproducible(Io& io, Buffer data, ReduceOp op) {
  if (!is_floating(data.type) || io.size() == 1)
    return ring_stream(io, data, op, RingPhases::reduce_scatter);
  return reduce_scatter_by_whole_numbers(io, data, op);
}

}  // namespace convoy::comm
