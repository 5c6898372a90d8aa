// Looks for the first value that is not finite while a batch is run once more.
#pragma once

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "convoy/data/dataset.h"
#include "convoy/train/task.h"
#include "train/fault/origin.h"
#include "train/fault/places.h"

namespace convoy::train {

// While one lives, steps of this thread are looked at, and make no update (may_update); without one
// nothing is hooked into. The network's buffers are as they were at its end. It is for a step that
// draws the same random numbers again.
//
// In a forward pass every operation of LibTorch's that is within no other one is looked at: what it
// takes, and what it puts out. Values that are not finite belong to where they come from as long as
// operations pass them on; so infinities that are meant to be there, as in masks of attention, are
// to blame only if the loss depends on them in that way. In backward the first gradient counts.
// One thread, but for backward.
class FaultWatch {
 public:
  // Refers to both. `samples` is what a TaskBatch counts its samples in.
  FaultWatch(torch::nn::Module& network, const data::Dataset& samples);
  ~FaultWatch();
  FaultWatch(const FaultWatch&) = delete;
  FaultWatch& operator=(const FaultWatch&) = delete;

  // Gives that of this thread, or null.
  static FaultWatch* current();

  // For each micro-batch in this order: before its forward pass; with what the network has put out;
  // with what backward will begin with. `part` is its number, from 0, of those that the share is
  // cut into, also where some count nothing and are not run.
  void begin_part(const TaskBatch& rows, std::int64_t part);
  void has_outputs(const TensorList& outputs);
  void has_loss(const torch::Tensor& loss);

  // Gives the first; nothing as long as everything is finite that the loss and the gradient depend
  // on. Not during backward.
  const std::optional<FaultOrigin>& found() const { return found_; }

 private:
  struct Call;  // of an operation
  struct Bad {
    c10::Storage storage;  // kept, so that nothing else gets its place
    std::size_t origin = 0;
  };
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& operation);
  static void on_end(const at::RecordFunction& operation, at::ObserverContext* context);
  void enter(const at::RecordFunction& operation, Call& call);
  void leave(const at::RecordFunction& operation, Call& call);
  void saw_gradients(const torch::autograd::Node& node,
                     const torch::autograd::variable_list& incoming,
                     const torch::autograd::variable_list& outgoing);
  template <class Work>
  void apart(const Work& work);
  std::size_t add(FaultOrigin origin);
  void mark(const at::Tensor& tensor, std::size_t origin);
  void unmark(const at::Tensor& tensor);
  std::optional<std::size_t> origin_of(const at::Tensor& tensor) const;
  FaultPlace place_of_input(const std::string& name, const torch::Tensor& tensor,
                            const TaskBatch& rows) const;

  const data::Dataset& samples_;
  FaultPlaces places_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> buffers_;   // and what was in them
  std::vector<std::pair<std::string, torch::Tensor>> parameters_;  // that are not finite
  FaultWatch* before_;                                             // of this thread
  at::CallbackHandle handle_ = 0;
  bool listening_ = false;  // to operations
  bool busy_ = false;       // with operations of its own
  int depth_ = 0;           // of operations in others
  std::int64_t part_ = 0;
  std::int64_t operations_ = 0, gradients_ = 0;  // of this part so far
  std::vector<FaultOrigin> origins_;
  std::unordered_map<const c10::StorageImpl*, Bad> bad_;  // memory of values that are not finite
  std::mutex mutex_;                                      // of what backward changes
  std::optional<FaultOrigin> found_;
};

}  // namespace convoy::train
