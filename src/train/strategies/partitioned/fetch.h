// A tensor that ranks share, on its way to those that need parts of it, and its gradient on the way
// back.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "train/strategies/partitioned/links.h"
#include "train/strategies/partitioned/route.h"

namespace convoy::train {

// Between start() and finish() others' parts are on their way; what is computed there hides them.
// So it is in backward: gradients of others' parts are sent when those of finish()'s boxes are
// there, and those that others send are waited for when the gradient of start()'s tensor is there,
// which autograd does in the opposite order of forward. That order is the same on all ranks, if all
// of them started and finished theirs in the same one, so nobody waits for somebody who waits for
// them.
//
// Every rank starts and finishes each; both leave tokens, of which the loss has to depend
// (end_of_pass), or backward would leave a rank's part out where nothing else does.
//
// Lives until backward is over. One thread.
class Fetch {
 public:
  struct Way {
    Links::Kind forward = Links::Kind::activations, backward = Links::Kind::gradients;
    // No two that are under way at a time have the same key.
    std::uint16_t key = 0;
    std::string name;  // in messages
    at::ScalarType wire = torch::kFloat;
    bool gradient = false;  // comes back: the same on all ranks
  };
  Fetch(Links& links, Route route, Way way);
  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;

  // `held` has the shape that the route says. What this rank itself reads of it, it reads of what
  // this returns.
  torch::Tensor start(const torch::Tensor& held);
  // Gives these boxes of what is wanted, when others' parts have come. To be called once.
  std::vector<torch::Tensor> finish(const std::vector<Box>& boxes);
  bool finished() const { return finished_; }
  // Gives all of what is wanted.
  torch::Tensor finish_all();

  const std::vector<torch::Tensor>& tokens() const { return tokens_; }

 private:
  friend struct StartFetch;
  friend struct FinishFetch;
  struct Message {
    Message() = default;
    Message(Message&&) noexcept = default;
    Message& operator=(Message&&) = delete;  // would free memory that the former one's is sent from

    torch::Tensor memory;
    comm::Operation operation;  // ends before its memory does
  };
  void send_parts(const torch::Tensor& held);
  torch::Tensor part_to_send(const torch::Tensor& held, std::size_t to) const;
  void free_what_was_sent();
  std::vector<torch::Tensor> assemble(const torch::Tensor& held, const std::vector<Box>& boxes);
  void send_gradients(const std::vector<torch::Tensor>& gradients);
  torch::Tensor add_gradients(const torch::Tensor& own);

  Links& links_;
  Route route_;
  Way way_;
  torch::TensorOptions like_;  // of the held tensor
  at::MemoryFormat format_ = at::MemoryFormat::Contiguous;
  Clock::time_point begin_;
  std::vector<Message> sends_, receives_;  // by rank
  std::vector<Box> boxes_;
  std::vector<torch::Tensor> tokens_;
  // In backward: gradients of the boxes, of which this rank holds a part itself.
  std::vector<torch::Tensor> box_gradients_;
  torch::Tensor held_;  // until finish()
  bool finished_ = false;
};

// The loss, so that backward reaches all of these: of tokens, and of parameters which nothing on
// this rank depends on (their gradient becomes 0).
torch::Tensor end_of_pass(const torch::Tensor& loss, const std::vector<torch::Tensor>& tokens,
                          const std::vector<torch::Tensor>& idle);

}  // namespace convoy::train
