#include "comm/shared_memory/windowed_collective.h"

#include <utility>

namespace convoy::comm {

WindowedCollective::WindowedCollective(Node& node, const Call& call, std::uint64_t id, Buffer data,
                                       Slices slices, const Board::Turn* turn)
    : collective_(node, call, id, turn),
      data_(data),
      slices_(std::move(slices)),
      length_(longest(slices_)) {}

bool WindowedCollective::advance() {
  if (done_ || !show()) return false;
  const bool staged = copy_in();
  if (!collective_.complete()) return staged;
  if (reach_.empty()) {
    Node& node = collective_.node();
    for (std::size_t i = 0; i < node.size(); ++i)
      reach_.push_back(node.reach(i, collective_.slot(i).location));
  }
  const bool moved = exchange();
  if (!complete()) return staged || moved;
  collective_.leave();
  window_.reset();
  done_ = true;
  return true;
}

bool WindowedCollective::show() {
  if (window_) return true;
  if (!Window::claim(collective_, data_)) return false;
  window_.emplace(collective_, data_, staged_slices());
  collective_.own().location = window_->location();
  begin();
  collective_.publish();
  return true;
}

void WindowedCollective::missing(std::vector<int>& ranks) const {
  if (!done_) collective_.behind(&Slot::finished, length_, ranks);
}

}  // namespace convoy::comm
