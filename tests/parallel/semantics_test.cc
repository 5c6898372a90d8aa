// One case for each thing that the documentation of PyTorch's DistributedDataParallel speaks of: N
// ranks with a share of the rows each against a loop on one process with all of them.
// docs/distributed-model.md has the table, with the cases that are in other files.
#include <gtest/gtest.h>

#include "tests/parallel/serial_layers.h"

namespace convoy {
namespace {

TEST(Semantics, ParametersThatSomeRanksDontUse) {
  Layers net = make_layers(), serial = make_layers();
  DistributedOptions options;
  options.allow_unused = true;
  DistributedModel model(test_world(), net, options);
  auto optimizer = optimizer_of(*net), serial_optimizer = optimizer_of(*serial);
  const std::int64_t of_rank_0 =
      static_cast<std::int64_t>(comm::chunk(kRows, test_world().size(), 0).count);
  // Rows of rank 0 alone pass the second layer.
  const auto with_second = [](Layers& layers, const at::Tensor& x) { return layers->forward(x); };
  const auto without = [](Layers& layers, const at::Tensor& x) {
    return layers->last(torch::tanh(layers->first(x)));
  };
  for (int step = 0; step < 3; ++step) {
    const at::Tensor x = global_rows(step), mine = my_rows(x);
    optimizer.zero_grad();
    serial_optimizer.zero_grad();
    loss_of(model.run(static_cast<double>(mine.size(0)), [&](LayersImpl&) {
      return test_world().rank() == 0 ? with_second(net, mine) : without(net, mine);
    })).backward();
    loss_of(torch::cat({with_second(serial, x.narrow(0, 0, of_rank_0)),
                        without(serial, x.narrow(0, of_rank_0, kRows - of_rank_0))}))
        .backward();
    optimizer.step();
    serial_optimizer.step();
    expect_same(*net, *serial, ", step " + std::to_string(step));
  }
}

// Every pass is reduced: what is in .grad already is the same on all ranks, and stays.
TEST(Semantics, GradientsOfSeveralStepsAddUp) {
  for (const bool views : {true, false}) {
    Layers net = make_layers(), serial = make_layers();
    DistributedOptions options;
    options.gradient_as_bucket_view = views;
    DistributedModel model(test_world(), net, options);
    for (int step = 0; step < 3; ++step) {
      loss_of(model.forward(my_rows(global_rows(step)))).backward();
      loss_of(serial->forward(global_rows(step))).backward();
      expect_same(*net, *serial, ", step " + std::to_string(step));
    }
  }
}

// Backward decides what is reduced; where forward is called doesn't matter.
TEST(Semantics, ParametersOfQuietPassesAlone) {
  Layers net = make_layers(), serial = make_layers();
  DistributedOptions options;
  options.allow_unused = true;
  DistributedModel model(test_world(), net, options);
  const auto without_second = [](LayersImpl& layers, const at::Tensor& x) {
    return layers.last(torch::tanh(layers.first(x)));
  };
  for (int step = 0; step < 3; ++step) {
    net->zero_grad();
    serial->zero_grad();
    const at::Tensor x = global_rows(2 * step), other = global_rows(2 * step + 1);
    const at::Tensor outside = loss_of(model.forward(my_rows(x)));
    {
      const auto quiet = model.no_sync();
      outside.backward();
    }
    const at::Tensor mine = my_rows(other);
    loss_of(model.run(static_cast<double>(mine.size(0)), [&](LayersImpl& layers) {
      return without_second(layers, mine);
    })).backward();
    loss_of(serial->forward(x)).backward();
    loss_of(without_second(*serial, other)).backward();
    expect_same(*net, *serial, ", step " + std::to_string(step));
  }
}

struct Buffers : torch::nn::Module {
  explicit Buffers(int rank)
      : weight(register_parameter("weight", torch::ones({2}))),
        number(register_buffer("number", torch::full({3}, 1.5 + rank, torch::kDouble))),
        half(register_buffer("half", torch::full({3}, 1 + rank, torch::kBFloat16))),
        // Above 2^53 a double has no odd numbers.
        whole(register_buffer("whole", torch::full({2}, (1L << 60) + 1 + rank, torch::kLong))),
        small(register_buffer("small", torch::full({2}, -300 - rank, torch::kShort))),
        flags(register_buffer("flags", torch::arange(4).eq(rank))),
        complex(register_buffer("complex", torch::full({2}, c10::complex<double>(1, 2 + rank),
                                                       torch::kComplexDouble))) {}
  at::Tensor weight, number, half, whole, small, flags, complex;
};

// Those of rank 0 at construction; then each rank's own, until they are asked for.
TEST(Semantics, BuffersOfEveryType) {
  const int rank = test_world().rank(), last = test_world().size() - 1;
  const auto expect_of = [](const Buffers& got, const Buffers& want) {
    const auto wanted = want.named_buffers();
    for (const auto& buffer : got.named_buffers())
      EXPECT_TRUE(buffer.value().equal(wanted[buffer.key()])) << buffer.key();
  };
  auto module = std::make_shared<Buffers>(rank);
  DistributedModel model(test_world(), module);
  expect_of(*module, Buffers(0));
  const Buffers own(rank + 10);
  for (auto& buffer : module->named_buffers())
    buffer.value().copy_(own.named_buffers()[buffer.key()]);
  model.run(1.0, [](Buffers& m) { return m.weight.sum(); }).backward();
  expect_of(*module, own);
  model.broadcast_buffers(last);
  expect_of(*module, Buffers(last + 10));
}

TEST(Semantics, FrozenParameters) {
  Layers net = make_layers(), serial = make_layers();
  for (auto* layers : {&net, &serial}) (*layers)->second->weight.set_requires_grad(false);
  auto model = std::make_unique<DistributedModel<LayersImpl>>(test_world(), net);
  auto optimizer = optimizer_of(*net), serial_optimizer = optimizer_of(*serial);
  const auto step = [&](int number) {
    optimizer.zero_grad();
    serial_optimizer.zero_grad();
    loss_of(model->forward(my_rows(global_rows(number)))).backward();
    loss_of(serial->forward(global_rows(number))).backward();
    optimizer.step();
    serial_optimizer.step();
    expect_same(*net, *serial, ", step " + std::to_string(number));
  };
  step(0);
  for (auto* layers : {&net, &serial}) (*layers)->second->weight.set_requires_grad(true);
  expect_refused([&] { model->forward(my_rows(global_rows(1))); },
                 {"'second.weight' was frozen", "distribute the model again"});
  model.reset();  // its hooks go before others come
  model = std::make_unique<DistributedModel<LayersImpl>>(test_world(), net);
  step(1);
}

TEST(Semantics, ParametersThatAreFrozenLater) {
  World alone = world_of_one();
  for (const bool allow_unused : {false, true}) {
    Layers net = make_layers(), serial = make_layers();
    DistributedOptions options;
    options.allow_unused = allow_unused;
    DistributedModel model(alone, net, options);
    for (int step = 0; step < 3; ++step) {
      for (auto* layers : {&net, &serial}) {
        (*layers)->zero_grad();
        if (step > 0) (*layers)->first->weight.set_requires_grad(false);
      }
      const at::Tensor loss = loss_of(model.forward(global_rows(step)));
      if (!allow_unused && step > 0) {
        expect_refused([&] { loss.backward(); }, {"no gradient for first.weight", "allow_unused"});
        break;
      }
      loss.backward();
      loss_of(serial->forward(global_rows(step))).backward();
      expect_same(*net, *serial, ", step " + std::to_string(step));
    }
  }
}

// A mean over nothing is no number; it does no harm to the others.
TEST(Semantics, ARankWithoutSamples) {
  Layers net = make_layers(), serial = make_layers();
  DistributedModel model(test_world(), net);
  auto optimizer = optimizer_of(*net), serial_optimizer = optimizer_of(*serial);
  const int size = test_world().size();
  for (int step = 0; step < 3; ++step) {
    const at::Tensor x = global_rows(step);
    // Another rank each time.
    const int idle = size > 1 ? step % size : -1;
    const int rank = test_world().rank();
    const auto part =
        comm::chunk(kRows, idle < 0 ? 1 : size - 1, idle >= 0 && rank > idle ? rank - 1 : rank);
    const at::Tensor mine = rank == idle ? x.narrow(0, 0, 0)
                                         : x.narrow(0, static_cast<std::int64_t>(part.begin),
                                                    static_cast<std::int64_t>(part.count));
    optimizer.zero_grad();
    serial_optimizer.zero_grad();
    loss_of(model.forward(mine)).backward();
    loss_of(serial->forward(x)).backward();
    optimizer.step();
    serial_optimizer.step();
    expect_same(*net, *serial, ", step " + std::to_string(step));
  }
}

// Two forward passes before the backward of the first, and two backward passes of one graph. The
// second has no forward pass of its own that could count its samples.
TEST(Semantics, SeveralBackwardPasses) {
  Layers net = make_layers(), serial = make_layers();
  DistributedModel model(test_world(), net);
  for (int round = 0; round < 2; ++round) {
    net->zero_grad();
    serial->zero_grad();
    const at::Tensor one = loss_of(model.forward(my_rows(global_rows(2 * round))));
    const at::Tensor two = loss_of(model.forward(my_rows(global_rows(2 * round + 1))));
    one.backward();
    two.backward({}, /*retain_graph=*/true);
    two.backward();
    const at::Tensor x = serial->forward(global_rows(2 * round)),
                     y = serial->forward(global_rows(2 * round + 1));
    (loss_of(x) + 2 * loss_of(y)).backward();
    expect_same(*net, *serial, ", round " + std::to_string(round));
  }
}

// What torch::autograd::grad gives is this rank's, and a term of the loss like any other.
TEST(Semantics, SecondDerivatives) {
  Layers net = make_layers(), serial = make_layers();
  DistributedModel model(test_world(), net);
  const auto penalized = [](const auto& forward, const at::Tensor& rows) {
    const at::Tensor x = rows.clone().set_requires_grad(true);
    const at::Tensor y = forward(x);
    const at::Tensor dx = torch::autograd::grad({y.square().sum()}, {x}, {}, /*retain_graph=*/true,
                                                /*create_graph=*/true)[0];
    return loss_of(y) + dx.square().sum(1).mean();
  };
  for (int step = 0; step < 2; ++step) {
    net->zero_grad();
    serial->zero_grad();
    penalized([&](const at::Tensor& x) { return model.forward(x); }, my_rows(global_rows(step)))
        .backward();
    penalized([&](const at::Tensor& x) { return serial->forward(x); }, global_rows(step))
        .backward();
    expect_same(*net, *serial, ", step " + std::to_string(step));
  }
}

// Optimizers that want all gradients in one piece of memory put views of it into .grad.
TEST(Semantics, GradientsThatAreViewsOfOtherMemory) {
  for (const bool views : {false, true}) {
    Layers net = make_layers(), serial = make_layers();
    DistributedOptions options;
    options.gradient_as_bucket_view = views;
    DistributedModel model(test_world(), net, options);
    std::int64_t elements = 0;
    for (const auto& p : net->parameters()) elements += p.numel();
    const at::Tensor flat = torch::zeros({elements}, torch::kDouble);
    std::vector<at::Tensor> parts;
    for (std::int64_t at = 0; auto& p : net->parameters()) {
      parts.push_back(flat.narrow(0, at, p.numel()).view(p.sizes()));
      at += p.numel();
    }
    for (int step = 0; step < 3; ++step) {
      flat.zero_();
      serial->zero_grad();
      for (std::size_t i = 0; i < parts.size(); ++i) net->parameters()[i].mutable_grad() = parts[i];
      loss_of(model.forward(my_rows(global_rows(step)))).backward();
      loss_of(serial->forward(global_rows(step))).backward();
      expect_same(*net, *serial, ", step " + std::to_string(step));
      // They stay where they are if they are to be copies of the buckets.
      for (std::size_t i = 0; i < parts.size(); ++i)
        EXPECT_EQ(net->parameters()[i].grad().data_ptr() == parts[i].data_ptr(), !views);
    }
  }
}

// Autograd gives broadcast and transposed gradients for these.
TEST(Semantics, GradientsThatComeAsViews) {
  const auto make = [] { return torch::arange(6, torch::kDouble).view({2, 3}).requires_grad_(); };
  const at::Tensor a = make(), b = make(), serial_a = make(), serial_b = make();
  parallel::GradientReducer reducer(test_world().communicator(), {{{"a", a}, {"b", b}}});
  const auto loss = [](const at::Tensor& one, const at::Tensor& other, const at::Tensor& rows) {
    return one.sum() * rows.mean() + other.t().mm(rows.slice(1, 0, 2).t()).mean(1).square().sum();
  };
  for (int step = 0; step < 3; ++step) {
    for (const auto& p : {a, b, serial_a, serial_b}) p.mutable_grad() = at::Tensor();
    // The same rows on all ranks: the second term is no mean over rows.
    loss(a, b, global_rows(step)).backward();
    loss(serial_a, serial_b, global_rows(step)).backward();
    expect_same(a.grad(), serial_a.grad(), "a");
    expect_same(b.grad(), serial_b.grad(), "b");
  }
}

}  // namespace
}  // namespace convoy
