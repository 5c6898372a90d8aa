#include "train/checkpoint/weights.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/train/safetensors.h"
#include "train/checkpoint/destination.h"
#include "train/checkpoint/slice_reader.h"
#include "train/rank_work.h"

namespace convoy::train {
namespace {

using Json = nlohmann::json;

// Into a tensor of the network. The pages of the file are let go of on the way.
void read_slice(const SafetensorsFile& file, const TensorView& view, const Slice& slice,
                const torch::Tensor& to) {
  Destination destination(slice, view.type, to);
  const std::size_t element = size_of_type(view.type);
  std::size_t done = 0;
  for_each_piece(whole_of(slice.tensor, view.shape), element, kPieceBytes, [&](const Slice& piece) {
    const auto bytes =
        view.bytes.subspan(done, static_cast<std::size_t>(piece.elements()) * element);
    done += bytes.size();
    if (!overlap(piece, slice)) return;
    destination.take(piece, bytes);
    file.let_go(bytes);
  });
  destination.finish();
}

// The names of each tensor of a module, by the first, which comes first.
std::map<std::string, std::vector<std::string>> names_in(const State& module) {
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& [name, tensor] : module.model) names[name] = {name};
  for (const auto& [alias, name] : module.aliases) names[name].push_back(alias);
  return names;
}

// What a rank finds for its part, before anything is taken.
struct Finding {
  WeightsReport report;
  std::map<std::string, Slice> fits;  // what it would take, by name
  std::set<std::string> others;       // names of what has another shape
};

// The tensor under one of its names, or null.
const TensorView* find_named(const SafetensorsFile& file, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (const TensorView* view = file.find(name)) return view;
  }
  return nullptr;
}

Finding look(const State& own, const SafetensorsFile& file, const Wanted& wanted) {
  Finding found;
  std::set<std::string> known;
  const auto differs = [&found](const std::string& name, const std::string& theirs,
                                at::IntArrayRef mine) {
    found.others.insert(name);
    found.report.mismatched.push_back(theirs + " in the file, " + shape_text(mine) +
                                      " in the model");
  };
  for (const auto& [name, names] : names_in(own)) {
    const torch::Tensor& held = own.model.at(name);
    known.insert(names.begin(), names.end());
    const TensorView* const view = find_named(file, names);
    if (view == nullptr) {
      found.report.missing.push_back(name);
      continue;
    }
    const std::string theirs = name + " is " + shape_text(view->shape);
    // Whoever says what is wanted counts on the dimensions that the tensor has.
    if (view->shape.size() != held.sizes().size()) {
      differs(name, theirs, held.sizes());
      continue;
    }
    const std::optional<Slice> slice = wanted(whole_of(name, view->shape));
    if (!slice) continue;
    slice->check();
    if (at::IntArrayRef(slice->size) == held.sizes()) {
      found.fits[name] = *slice;
      found.report.loaded.push_back(name);
    } else {
      differs(name, slice->whole() ? theirs : slice->text(), held.sizes());
    }
  }
  for (const TensorView& view : file.tensors()) {
    if (!known.contains(view.name)) found.report.unexpected.push_back(view.name);
  }
  std::sort(found.report.unexpected.begin(), found.report.unexpected.end());
  return found;
}

// What is wanted, in the module; what all ranks leave is as it was there.
State take(const State& own, const SafetensorsFile& file, const Finding& found,
           const std::set<std::string>& left) {
  State state;
  state.aliases = own.aliases;
  for (const auto& [name, names] : names_in(own)) {
    const torch::Tensor& held = own.model.at(name);
    const auto slice = found.fits.find(name);
    const TensorView* const view = find_named(file, names);
    const bool fits = slice != found.fits.end();
    if (fits && !left.contains(name)) {
      read_slice(file, *view, slice->second, held);
      if (!slice->second.whole()) state.parts[name] = slice->second;
    }
    if (fits || view == nullptr || found.others.contains(name)) state.model[name] = held;
  }
  return state;
}

std::string to_text(const Finding& found) {
  const WeightsReport& report = found.report;
  Json slices = Json::object();
  for (const auto& [name, slice] : found.fits)
    slices[name] = slice.whole() ? Json() : Json::array({slice.shape, slice.begin, slice.size});
  return Json::array({report.loaded, report.missing, report.mismatched, report.unexpected,
                      found.others, slices})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Boxes that hold what `taken` leaves of one, none of it twice.
std::vector<Slice> without(const Slice& box, const Slice& taken) {
  const std::optional<Slice> common = overlap(box, taken);
  if (!common) return {box};
  std::vector<Slice> rest;
  Slice inner = box;
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    const std::int64_t begin = common->begin[d], end = begin + common->size[d];
    Slice before = inner, after = inner;
    before.size[d] = begin - inner.begin[d];
    after.begin[d] = end;
    after.size[d] = inner.begin[d] + inner.size[d] - end;
    if (before.size[d] > 0) rest.push_back(before);
    if (after.size[d] > 0) rest.push_back(after);
    inner.begin[d] = begin;
    inner.size[d] = common->size[d];
  }
  return rest;
}

// Some of a tensor that no rank takes, or nothing.
std::optional<Slice> left_over(const std::vector<Slice>& slices) {
  std::vector<Slice> rest{whole_of(slices[0].tensor, slices[0].shape)};
  if (rest[0].elements() == 0) return std::nullopt;
  for (const Slice& slice : slices) {
    std::vector<Slice> less;
    for (const Slice& box : rest) {
      const std::vector<Slice> boxes = without(box, slice);
      less.insert(less.end(), boxes.begin(), boxes.end());
    }
    rest = std::move(less);
  }
  return rest.empty() ? std::nullopt : std::optional(rest[0]);
}

// Of what ranks have found each for itself. What one of them can't take is taken by none, and
// neither is what they would take a part of: its name goes to `left`.
WeightsReport united(const std::vector<std::string>& findings, std::set<std::string>& left) {
  std::set<std::string> loaded, missing, mismatched;
  std::set<std::string> whole;                       // what somebody takes all of
  std::map<std::string, std::size_t> unexpected;     // by how many
  std::map<std::string, std::vector<Slice>> slices;  // different ones
  for (const std::string& text : findings) {
    const Json json = Json::parse(text);
    const auto add = [&json](std::size_t list, std::set<std::string>& names) {
      for (const auto& name : json[list]) names.insert(name.get<std::string>());
    };
    add(0, loaded);
    add(1, missing);
    add(2, mismatched);
    for (const auto& name : json[3]) ++unexpected[name.get<std::string>()];
    add(4, left);
    for (const auto& [name, box] : json[5].items()) {
      if (box.is_null()) {
        whole.insert(name);
        continue;
      }
      const auto numbers = box.get<std::vector<std::vector<std::int64_t>>>();
      std::vector<Slice>& known = slices[name];
      const Slice slice{name, numbers[0], numbers[1], numbers[2]};
      if (std::find(known.begin(), known.end(), slice) == known.end()) known.push_back(slice);
    }
  }
  for (const std::string& name : whole) slices.erase(name);
  for (const auto& [name, boxes] : slices) {
    const std::optional<Slice> rest = left_over(boxes);
    if (!rest || !left.insert(name).second) continue;
    mismatched.insert(rest->text() + " in the file, on no rank in the model");
  }
  for (const std::string& name : left) loaded.erase(name);
  WeightsReport report;
  report.loaded.assign(loaded.begin(), loaded.end());
  report.missing.assign(missing.begin(), missing.end());
  report.mismatched.assign(mismatched.begin(), mismatched.end());
  for (const auto& [name, ranks] : unexpected) {
    if (ranks == findings.size()) report.unexpected.push_back(name);
  }
  return report;
}

// Throws unless it is good enough.
void check(WeightsReport& report, const std::string& file, bool partial) {
  // Counters that older files of PyTorch lack; training doesn't need them.
  std::erase_if(report.missing,
                [](const std::string& name) { return name.ends_with("num_batches_tracked"); });
  const bool whole =
      report.missing.empty() && report.unexpected.empty() && report.mismatched.empty();
  if (!whole && !partial) {
    throw UsageError(file + " does not fit the model: " + describe(report) +
                     ". To take what fits, set model.partial = true");
  }
  if (report.loaded.empty()) throw UsageError(file + " fits no tensor of the model");
}

}  // namespace

Weights read_weights(const comm::Communicator& communicator, const torch::nn::Module& module,
                     const std::string& path, bool partial, const Wanted& wanted) {
  State own;
  describe_module(module, own);
  std::optional<SafetensorsFile> file;
  Finding found;
  on_every_rank(communicator, [&] {
    file.emplace(path);
    found = look(own, *file, wanted);
  });
  std::set<std::string> left;
  Weights weights;
  weights.report = united(communicator.gather_text(to_text(found)), left);
  check(weights.report, path, partial);
  weights.metadata = file->metadata();
  on_every_rank(communicator, [&] { weights.state = take(own, *file, found, left); });
  return weights;
}

WeightsReport load_weights(torch::nn::Module& module, const std::string& path, bool partial) {
  State own;
  describe_module(module, own);
  const SafetensorsFile file(path);
  Finding found = look(own, file, everything);
  check(found.report, path, partial);
  load_module(module, take(own, file, found, {}), path);
  return found.report;
}

}  // namespace convoy::train
