#include "comm/collectives/tree/stream.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "comm/kernels/reduce.h"
#include "comm/topology/tree.h"
#include "convoy/comm/communicator.h"

namespace convoy::comm {
namespace {

// One color as this rank sees it. A lane carries one color up one way and down the other.
struct Color {
  Buffer data;
  TreeLinks links;
  int parent_lane = 0;
  std::vector<int> child_lanes;
  int segments = 1;
  Pipeline pipeline;

  // Filled by sum_up(): what went to the parent, segment by segment.
  std::vector<Ticket> up;
  std::size_t sent_up = 0;
  std::size_t received_down = 0;  // by pass_down()

  // How many segments may be on their way up and down again. Without a limit all sums of a rank
  // would wait in front of the first result on every connection, and the slowest of them would
  // decide: so, whoever is ahead waits, and the others have the links.
  std::size_t lead() const { return kLead * pipeline.in_flight; }
  static constexpr std::size_t kLead = 4;

  Buffer segment(std::size_t i) const {
    const Chunk c = chunk(data.count, segments, static_cast<int>(i));
    return slice(data, c.begin, c.count);
  }
  std::size_t size() const { return static_cast<std::size_t>(segments); }
};

// The messages to the children. Nothing limits them here: a child takes them as it posts receives.
class ToChildren {
 public:
  explicit ToChildren(const Color& color) : color_(color) {
    tickets_.reserve(color.size() * color.links.children.size());
  }

  void send(Io& io, std::size_t i) {
    const std::vector<int>& children = color_.links.children;
    for (std::size_t c = 0; c < children.size(); ++c)
      tickets_.push_back(
          io.send(children[c], bytes_of(ConstBuffer(color_.segment(i))), color_.child_lanes[c]));
  }
  std::span<Ticket> everything() { return tickets_; }

 private:
  const Color& color_;
  std::vector<Ticket> tickets_;
};

// Towards the root; the root itself sends what it has summed down again.
Task sum_up(Io& io, Color& color, ReduceOp op) {
  const std::vector<int>& children = color.links.children;
  const std::size_t window = std::min(color.pipeline.in_flight, color.size());
  const std::size_t stride = color.segment(0).bytes();  // the first is among the largest
  std::unique_ptr<std::byte[]> scratch;
  if (!children.empty())
    scratch = std::make_unique_for_overwrite<std::byte[]>(window * children.size() * stride);
  std::vector<Ticket> receives(window * children.size());
  const auto slot = [&](std::size_t i, std::size_t child) {
    return i % window * children.size() + child;
  };
  const auto post = [&](std::size_t i) {
    for (std::size_t c = 0; c < children.size(); ++c) {
      receives[slot(i, c)] =
          io.receive(children[c], {scratch.get() + slot(i, c) * stride, color.segment(i).bytes()},
                     color.child_lanes[c]);
    }
  };
  const bool root = color.links.parent < 0;
  ToChildren down(color);

  for (std::size_t i = 0; i < window; ++i) post(i);
  for (std::size_t i = 0; i < color.size(); ++i) {
    const Buffer sum = color.segment(i);
    for (std::size_t c = 0; c < children.size(); ++c) {
      co_await one(receives[slot(i, c)]);
      reduce(op, sum.type, sum.data, scratch.get() + slot(i, c) * stride, sum.count);
    }
    if (i + window < color.size()) post(i + window);
    if (root) {
      if (op == ReduceOp::average) divide(sum.type, sum.data, sum.count, io.size());
      down.send(io, i);
    } else {
      if (i >= color.lead()) co_await reaches(color.received_down, i - color.lead() + 1);
      color.up[i] = io.send(color.links.parent, bytes_of(ConstBuffer(sum)), color.parent_lane);
      color.sent_up = i + 1;
    }
  }
  co_await all(down.everything());
}

// From the parent to the children. A result arrives where the partial sum was sent from, so that
// one must be gone before the receive is posted.
Task pass_down(Io& io, Color& color) {
  std::vector<Ticket> receives(color.size());
  std::size_t posted = 0;
  ToChildren down(color);
  for (std::size_t i = 0; i < color.size(); ++i) {
    if (posted == i) {
      co_await reaches(color.sent_up, i + 1);
      co_await one(color.up[i]);
    }
    for (; posted < color.sent_up && color.up[posted].poll(); ++posted)
      receives[posted] =
          io.receive(color.links.parent, bytes_of(color.segment(posted)), color.parent_lane);
    co_await one(receives[i]);
    color.received_down = i + 1;
    down.send(io, i);
  }
  co_await all(down.everything());
}

}  // namespace

Task tree_stream(Io& io, Buffer data, ReduceOp op, int colors, Pipeline pipeline) {
  if (io.size() == 1) co_return;
  // Where lanes don't suffice for all colors these take turns, on every rank alike.
  const int at_once = colors_at_once(io.size(), colors, Io::kMessageLane);
  for (int first = 0; first < colors; first += at_once) {
    const int last = std::min(first + at_once, colors);
    EdgeLanes lanes(io.size(), io.rank());
    std::vector<Color> parts(static_cast<std::size_t>(last - first));
    std::vector<Branch> list;
    list.reserve(2 * parts.size());
    for (int c = first; c < last; ++c) {
      Color& color = parts[static_cast<std::size_t>(c - first)];
      const Chunk part = chunk(data.count, colors, c);
      color.data = slice(data, part.begin, part.count);
      color.links = ColorTree(io.size(), colors, c).links(io.rank());
      if (color.links.parent >= 0) color.parent_lane = lanes.to_parent(color.links.parent);
      for (const int child : color.links.children)
        color.child_lanes.push_back(lanes.to_child(child));
      color.segments = segments_of(part.count, data.type, pipeline);
      color.pipeline = pipeline;
      list.emplace_back(sum_up(io, color, op));
      if (color.links.parent < 0) continue;
      color.up.resize(color.size());
      list.emplace_back(pass_down(io, color));
    }
    co_await branches(list);
  }
}

}  // namespace convoy::comm
