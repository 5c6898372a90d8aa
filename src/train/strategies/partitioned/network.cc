#include "train/strategies/partitioned/network.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/model/dropout.h"
#include "model/execution/module_tree.h"
#include "model/execution/user_part.h"

namespace convoy::train {

using model::Division;
using model::PartitionedNode;
using model::PartitionedValue;
using torch::Tensor;

namespace {

bool holds(const Slice& outer, const Slice& inner) {
  if (inner.elements() == 0) return true;
  const auto both = overlap(outer, inner);
  return both && both->elements() == inner.elements();
}

// By the numbers of samples, as a module of the user's may within it.
bool has_dropout(const model::Node& node) {
  if (const auto* dropout = std::get_if<model::layer::Dropout>(&node.kind))
    return dropout->probability > 0;
  if (node.module == nullptr) return false;
  const auto modules = node.module->module.ptr()->modules();
  return std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    const auto* dropout = module->template as<model::DropoutImpl>();
    return dropout != nullptr && dropout->probability() > 0;
  });
}

// A batch normalization whose statistics others have parts of.
class StatisticsScope {
 public:
  explicit StatisticsScope(parallel::SynchronizedBatchNorm* scope)
      : before_(parallel::exchange_synchronized_batch_norm(scope)) {}
  ~StatisticsScope() { parallel::exchange_synchronized_batch_norm(before_); }
  StatisticsScope(const StatisticsScope&) = delete;
  StatisticsScope& operator=(const StatisticsScope&) = delete;

 private:
  parallel::SynchronizedBatchNorm* before_;
};

}  // namespace

std::vector<Tensor> PartitionedPass::tokens() const {
  std::vector<Tensor> all;
  for (const auto& fetch : fetches)
    all.insert(all.end(), fetch->tokens().begin(), fetch->tokens().end());
  return all;
}

void PartitionedPass::check_backward() const {
  for (const auto& layer : pieces) {
    const std::string lost = layer->unfinished();
    if (lost.empty()) continue;
    throw UsageError("the layer of '" + lost +
                     "' computes its rows in pieces, and backward has reached only some of them, "
                     "since its module keeps what it has computed of others: let it keep nothing, "
                     "or set partitioned.overlap = false");
  }
}

PartitionedNetwork::PartitionedNetwork(model::Blueprint blueprint, model::PartitionPlan plan,
                                       std::uint64_t seed, int partition)
    : torch::nn::Module(blueprint.name),
      blueprint_(std::move(blueprint)),
      plan_(std::move(plan)),
      partition_(static_cast<std::size_t>(partition)),
      fetchers_(plan_.values.size(), 0) {
  const auto auxiliary = model::auxiliary_layers(blueprint_);
  for (const PartitionedNode& place : plan_.nodes) {
    const model::Node& node = plan_.node_of(blueprint_, place);
    auxiliary_.push_back(auxiliary[place.stage][place.node]);
    std::vector<model::Shape> shapes;
    for (const std::size_t input : place.inputs) shapes.push_back(plan_.values[input].shape);
    const PartitionedValue& output = plan_.values[place.output];
    layers_.emplace_back(node, place, std::move(shapes), output.tiles[partition_], partition, seed);
    const PartLayer& layer = layers_.back();
    if (layer.module() != nullptr) {
      model::register_under(*this, node.name, layer.module());
      const std::vector<Tensor> parameters = layer.module()->parameters();
      if (layer.empty()) idle_.insert(idle_.end(), parameters.begin(), parameters.end());
    }
    parts_.insert(layer.parts().begin(), layer.parts().end());
    drops_units_ = drops_units_ || has_dropout(node);
    for (std::size_t i = 0; i < place.inputs.size(); ++i) {
      if (is_read_whole(layers_.size() - 1, i)) ++fetchers_[place.inputs[i]];
    }
  }
  note_last_readers();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const PartitionedNode& place = plan_.nodes[i];
    // What this rank has of the user's modules was copied: the whole need not stay.
    model::Node& node = blueprint_.stages[place.stage].nodes[place.node];
    node = model::as_data(std::move(node), plan_.values[place.output].shape);
    const PartitionedValue& input = plan_.values[place.inputs.front()];
    const Slice& tile = input.tiles[partition_];
    const bool alone = place.inputs.size() == 1 && input.exchanged && !input.input &&
                       fetchers_[place.inputs.front()] == 1 && is_read_whole(i, 0);
    interiors_.push_back(alone && place.how == Division::rows ? layers_[i].interior(tile)
                                                              : Slice());
    const bool shared = input.input || input.exchanged;
    in_place_.push_back(!shared && model::in_place(blueprint_.stages[place.stage], place.node));
  }
}

// Values that nobody reads afterwards needn't be kept.
void PartitionedNetwork::note_last_readers() {
  last_read_.resize(plan_.nodes.size());
  std::vector<std::size_t> last(plan_.values.size(), plan_.nodes.size());
  for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
    for (const std::size_t input : plan_.nodes[i].inputs) last[input] = i;
  }
  for (const std::size_t output : plan_.outputs) last[output] = plan_.nodes.size();
  for (std::size_t v = 0; v < last.size(); ++v) {
    if (last[v] < plan_.nodes.size()) last_read_[last[v]].push_back(v);
  }
}

// Whether a layer reads more of an input than this rank holds. The same is done on all ranks, or
// some would wait for gradients that others don't send.
bool PartitionedNetwork::is_read_whole(std::size_t node, std::size_t input) const {
  const PartitionedNode& place = plan_.nodes[node];
  const PartitionedValue& value = plan_.values[place.inputs[input]];
  if (!value.exchanged || value.input) return false;
  const auto& required = place.required[input];
  for (std::size_t p = 0; p < required.size(); ++p) {
    if (!holds(value.tiles[p], required[p])) return true;
  }
  return false;
}

Fetch& PartitionedNetwork::add_fetch(PartitionedPass& pass, Route route, Fetch::Way way) const {
  way.key = static_cast<std::uint16_t>(pass.fetches.size());
  pass.fetches.push_back(std::make_unique<Fetch>(pass.links, std::move(route), std::move(way)));
  return *pass.fetches.back();
}

std::vector<PartitionedNetwork::Here> PartitionedNetwork::start_inputs(
    PartitionedPass& pass, const model::Tensors& inputs) const {
  std::vector<Here> values(plan_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const PartitionedValue& value = plan_.values[i];
    values[i].held = value.needed[partition_];
    values[i].fetch =
        &add_fetch(pass, route_of_input(value, pass.rows, pass.links.rank()),
                   {.forward = Links::Kind::inputs, .name = value.name, .wire = pass.types[i]});
    values[i].fetch->start(inputs[i]);
  }
  return values;
}

void PartitionedNetwork::pass_on(PartitionedPass& pass, std::size_t value, Tensor tile,
                                 std::vector<Here>& values) const {
  const PartitionedValue& own = plan_.values[value];
  Here& here = values[value];
  here.held = own.tiles[partition_];
  // Where a rank computes nothing of a layer, what it has has the type of the layer's input.
  if (tile.scalar_type() != pass.types[value]) tile = tile.to(pass.types[value]);
  if (own.exchanged) {
    here.fetch = &add_fetch(pass, route_between(own, pass.rows.all(), pass.links.rank()),
                            {.name = own.name, .wire = pass.types[value], .gradient = own.trained});
    tile = here.fetch->start(tile);
  }
  here.tile = std::move(tile);
}

// The rows that need only what is here are computed while what others need is on its way.
Tensor PartitionedNetwork::compute_around(PartitionedPass& pass, std::size_t node,
                                          Here& input) const {
  const PartLayer& layer = layers_[node];
  const Slice& out = layer.output();
  const Slice& inside = interiors_[node];
  const PartitionedValue& value = plan_.values[plan_.nodes[node].inputs.front()];
  const Slice& needed = value.needed[partition_];
  auto* const pieces = pass.pieces.emplace_back(std::make_unique<model::GradientInPieces>()).get();
  const Tensor middle = layer.compute({input.tile}, {input.held}, inside, false, pieces);
  std::vector<Slice> outs;  // above and below
  for (const auto& [begin, end] :
       {std::pair{out.begin[1], inside.begin[1]},
        std::pair{inside.begin[1] + inside.size[1], out.begin[1] + out.size[1]}}) {
    Slice part = out;
    part.begin[1] = begin;
    part.size[1] = end - begin;
    outs.push_back(std::move(part));
  }
  std::vector<Box> boxes;
  std::vector<Slice> reads;
  for (const Slice& part : outs) {
    if (part.size[1] == 0) continue;
    reads.push_back(layer.required(part)[0]);
    boxes.push_back(box_of(0, input.tile.size(0), reads.back(), needed));
  }
  const model::Tensors fetched = input.fetch->finish(boxes);
  model::Tensors rows;
  std::size_t next = 0;
  for (std::size_t i = 0; i < outs.size(); ++i) {
    if (outs[i].size[1] > 0) {
      rows.push_back(layer.compute({fetched[next]}, {reads[next]}, outs[i], false, pieces));
      ++next;
    }
    if (i == 0) rows.push_back(middle);
  }
  return rows.size() == 1 ? rows.front() : torch::cat(rows, 2);
}

// Parts draw as much as they are large, so that what a layer draws can't follow from what those
// before it have drawn: those that all compute whole are to be the same. Parts draw their own.
void PartitionedNetwork::seed_generator(const PartitionedPass& pass, std::size_t node) const {
  const PartitionedNode& place = plan_.nodes[node];
  if (!pass.seed ||
      !std::holds_alternative<model::layer::Opaque>(plan_.node_of(blueprint_, place).kind))
    return;
  const std::size_t part = place.how == Division::whole ? 0 : partition_ + 1;
  torch::manual_seed(RandomStream(*pass.seed, node, part)());
}

Tensor PartitionedNetwork::compute(PartitionedPass& pass, std::size_t node,
                                   std::vector<Here>& values) const {
  const PartitionedNode& place = plan_.nodes[node];
  seed_generator(pass, node);
  const PartLayer& layer = layers_[node];
  const Slice& inside = interiors_[node];
  if (pass.overlap && !inside.size.empty() && inside.elements() > 0)
    return compute_around(pass, node, values[place.inputs.front()]);
  model::Tensors inputs;
  std::vector<Slice> boxes;
  for (std::size_t i = 0; i < place.inputs.size(); ++i) {
    const PartitionedValue& value = plan_.values[place.inputs[i]];
    Here& here = values[place.inputs[i]];
    const bool fetched = here.fetch != nullptr && (value.input || is_read_whole(node, i));
    if (fetched && !here.all.defined()) here.all = here.fetch->finish_all();
    inputs.push_back(fetched ? here.all : here.tile);
    boxes.push_back(fetched ? value.needed[partition_] : here.held);
  }
  const bool normalizes = std::holds_alternative<model::layer::BatchNorm>(layer.node().kind);
  if (std::holds_alternative<model::layer::Opaque>(plan_.node_of(blueprint_, place).kind) &&
      (place.how == Division::whole || plan_.partitions == 1)) {
    const StatisticsScope scope(pass.statistics.units);  // of what it may have inside
    return layer.compute(inputs, boxes, layer.output(), false);
  }
  if (!normalizes) return layer.compute(inputs, boxes, layer.output(), in_place_[node]);
  auto* const statistics = place.shares_statistics ? pass.statistics.images : pass.statistics.units;
  const StatisticsScope scope(statistics);
  if (statistics != nullptr && layer.module() != nullptr)
    return layer.normalize(inputs[0], boxes[0]);
  return layer.compute(inputs, boxes, layer.output(), in_place_[node]);
}

void PartitionedNetwork::compute_all(PartitionedPass& pass, std::vector<Here>& values) const {
  for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
    // All ranks leave out the same.
    if (is_training() || !auxiliary_[i])
      pass_on(pass, plan_.nodes[i].output, compute(pass, i, values), values);
    for (const std::size_t value : last_read_[i]) values[value] = Here();
  }
}

model::Tensors PartitionedNetwork::outputs(PartitionedPass& pass, const model::Tensors& inputs,
                                           std::vector<Here>& values, bool home) const {
  const int me = pass.links.rank();
  std::vector<Fetch*> started;  // null: an input, which is where its samples are
  const std::size_t left_out = is_training() ? 0 : blueprint_.auxiliary.size();
  for (std::size_t i = 0; i + left_out < plan_.outputs.size(); ++i) {
    const std::size_t output = plan_.outputs[i];
    const PartitionedValue& value = plan_.values[output];
    if (value.input) {
      started.push_back(nullptr);
      continue;
    }
    Fetch& fetch = add_fetch(
        pass, home ? route_home(value, pass.rows, me) : route_to_all(value, pass.rows.all(), me),
        {.forward = Links::Kind::scores,
         .backward = Links::Kind::score_gradients,
         .name = value.name,
         .wire = pass.types[output],
         .gradient = value.trained});
    fetch.start(values[output].tile);
    started.push_back(&fetch);
  }
  model::Tensors all;
  for (std::size_t i = 0; i < started.size(); ++i) {
    // Inputs are the first values.
    all.push_back(started[i] == nullptr ? inputs[plan_.outputs[i]] : started[i]->finish_all());
  }
  finish_all(pass);
  return all;
}

// What this rank needs nothing of.
void PartitionedNetwork::finish_all(PartitionedPass& pass) {
  for (const auto& fetch : pass.fetches) {
    if (!fetch->finished()) fetch->finish({});
  }
}

model::Tensors PartitionedNetwork::run_parts(PartitionedPass& pass, const model::Tensors& inputs) {
  std::vector<Here> values = start_inputs(pass, inputs);
  compute_all(pass, values);
  model::Tensors all;
  for (const std::size_t output : plan_.outputs) all.push_back(values[output].tile);
  finish_all(pass);
  return all;
}

model::Tensors PartitionedNetwork::run(PartitionedPass& pass, const model::Tensors& inputs) {
  std::vector<Here> values = start_inputs(pass, inputs);
  compute_all(pass, values);
  return outputs(pass, inputs, values, /*home=*/true);
}

model::Tensors PartitionedNetwork::run_alike(PartitionedPass& pass, const model::Tensors& inputs) {
  std::vector<Here> values(plan_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[i].tile = inputs[i];
    values[i].held = whole_of(plan_.values[i].name, plan_.values[i].shape);
  }
  compute_all(pass, values);
  return outputs(pass, inputs, values, /*home=*/false);
}

}  // namespace convoy::train
