// Signals of a user that have come before whoever is to get them can take them.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace convoy::cli {

class HeldSignals {
 public:
  // To be passed on as soon as that can be; a signal that is held already is not held twice, as the
  // kernel does it.
  void add(int signal) {
    if (std::find(signals_.begin(), signals_.end(), signal) == signals_.end())
      signals_.push_back(signal);
  }
  bool any() const { return !signals_.empty(); }
  // Takes the signals of which `can_be_taken(signal)` is true, in the order in which they came. The
  // others stay.
  template <class F>
  std::vector<int> take(F&& can_be_taken) {
    std::vector<int> taken, held;
    for (const int signal : signals_) (can_be_taken(signal) ? taken : held).push_back(signal);
    signals_ = std::move(held);
    return taken;
  }
  void forget() { signals_.clear(); }

 private:
  std::vector<int> signals_;
};

}  // namespace convoy::cli
