// Backward passes inside of others, as of layers that keep no activations.
#include "tests/parallel/serial_layers.h"

namespace convoy {
namespace {

// A layer whose backward computes it again, with a backward pass of its own inside of the other.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            torch::nn::LinearImpl* layer) {
    context->save_for_backward({x});
    context->saved_data["layer"] = reinterpret_cast<std::int64_t>(layer);
    return layer->forward(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list dy) {
    const at::AutoGradMode on(true);
    auto* layer = reinterpret_cast<torch::nn::LinearImpl*>(  // NOLINT
        context->saved_data["layer"].toInt());
    const at::Tensor x = context->get_saved_variables()[0].detach().requires_grad_();
    torch::autograd::backward({layer->forward(x)}, {dy[0]});
    return {x.grad(), at::Tensor()};
  }
};

// Bit i of `again`: the layer i is computed again.
at::Tensor recomputing(LayersImpl& net, const at::Tensor& rows, unsigned again) {
  at::Tensor x = rows.clone().set_requires_grad(true);
  for (unsigned i = 0; auto* layer : {&net.first, &net.second, &net.last}) {
    x = (again >> i & 1) != 0 ? Recomputed::apply(x, layer->get()) : (*layer)(x);
    if (++i < 3) x = torch::tanh(x);
  }
  return x;
}

TEST(Recomputation, EqualsOneProcess) {
  for (unsigned again = 0; again < 8; ++again) {
    Layers net = make_layers(), serial = make_layers();
    DistributedModel model(test_world(), net);
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      serial->zero_grad();
      const at::Tensor mine = my_rows(global_rows(step));
      loss_of(model.run(static_cast<double>(mine.size(0)), [&](LayersImpl& layers) {
        return recomputing(layers, mine, again);
      })).backward();
      loss_of(serial->forward(global_rows(step))).backward();
      expect_same(*net, *serial,
                  ", step " + std::to_string(step) + ", again " + std::to_string(again));
      EXPECT_EQ(model.statistics().steps, static_cast<std::uint64_t>(step) + 1);
    }
  }
}

TEST(Recomputation, IsRefusedWhereNobodyCanTellWhatIsMissing) {
  World alone = world_of_one();
  {
    Layers net = make_layers();
    DistributedOptions options;
    options.allow_unused = true;
    DistributedModel model(alone, net, options);
    const at::Tensor loss = loss_of(recomputing(*net, global_rows(0), 4));
    expect_refused([&] { loss.backward(); }, {"no gradient for first.weight", "within another one",
                                              "Leave allow_unused off"});
  }
  Layers net = make_layers();
  DistributedModel model(alone, net);
  // The pass around it brings no gradient of the others, so that nothing is called at its end.
  const at::Tensor x = torch::ones({2, 8}, torch::kDouble).set_requires_grad(true);
  loss_of(Recomputed::apply(x, net->last.get())).backward();
  expect_refused([&] { model.forward(global_rows(1)); }, {"no gradient for first.weight"});
}

TEST(Recomputation, OfAParameterThatHasItsGradientIsRefused) {
  World alone = world_of_one();
  Layers net = make_layers();
  DistributedModel model(alone, net);
  const at::Tensor x = torch::ones({2, 8}, torch::kDouble).set_requires_grad(true);
  const at::Tensor again = loss_of(Recomputed::apply(x, net->last.get()));
  const at::Tensor loss = again + net->last->weight.sum();  // comes first in backward
  expect_refused([&] { loss.backward(); }, {"'last.weight' got its gradient twice"});
}

}  // namespace
}  // namespace convoy
