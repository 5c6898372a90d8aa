#include "convoy/train/trained.h"

#include <algorithm>
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/random.h"
#include "convoy/data/transform.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/evaluate.h"
#include "convoy/train/state.h"
#include "convoy/train/threads.h"
#include "train/compute/compute.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

// The data that a network was trained on may be gone, and isn't needed.
Recipe parse(Registry& registry, const RecipeText& text, const std::vector<std::string>& overrides,
             Files files) {
  registry.load_plugins(plugins_of(text, overrides));
  return parse_recipe(text, overrides, registry.vocabulary(), files);
}

// Training notes it; --set data.size asks for another one.
data::Shape noted_shape(const Manifest& manifest, const Recipe& recipe) {
  const auto number = [&manifest](const char* key) {
    const auto found = manifest.numbers.find(key);
    if (found == manifest.numbers.end()) {
      throw UsageError(std::string("the checkpoint lacks the number ") + key);
    }
    return static_cast<int>(found->second);
  };
  data::Shape shape{number("input.channels"), number("input.height"), number("input.width")};
  if (recipe.data.size > 0) shape.height = shape.width = static_cast<int>(recipe.data.size);
  return shape;
}

void make(Trained& trained, const Registry& registry, std::int64_t classes) {
  const Recipe& recipe = trained.recipe;
  set_threads(static_cast<int>(recipe.threads));
  trained.network = registry.make_model(
      recipe.model.name, {recipe.model.classes > 0 ? recipe.model.classes : classes, trained.input,
                          recipe.model.options});
  const Compute compute(recipe);
  compute.place(*trained.network);
  compute.check_takes(*trained.network, trained.input, recipe.model.name);
}

}  // namespace

Trained load_trained(Registry& registry, const std::string& path, Which which,
                     const std::vector<std::string>& overrides) {
  Trained trained;
  if (fs::path(path).extension() == ".toml") {
    trained.recipe = parse(registry, read_recipe_file(path), overrides, Files::must_exist);
    const Recipe& recipe = trained.recipe;
    if (recipe.model.weights.empty()) {
      throw UsageError(path + " names no weights; add --set model.weights=FILE, or name a run");
    }
    const auto dataset =
        registry.open_data(recipe.data.reader,
                           recipe.data.has_validation ? recipe.data.validation : recipe.data.train);
    trained.classes = dataset->classes();
    trained.input = input_shape(*dataset, recipe.data);
    make(trained, registry, static_cast<std::int64_t>(trained.classes.size()));
    load_weights(*trained.network, recipe.model.weights, recipe.model.partial);
    trained.source = recipe.model.weights;
  } else {
    trained.source = checkpoint_in(path, which);
    const Manifest manifest = open_checkpoint(trained.source);
    trained.recipe =
        parse(registry, {manifest.recipe, trained.source, "/"}, overrides, Files::may_be_missing);
    trained.classes = manifest.classes;
    trained.input = noted_shape(manifest, trained.recipe);
    make(trained, registry, static_cast<std::int64_t>(trained.classes.size()));
    const State state = read_model(trained.source, manifest);
    load_module(*trained.network, state, trained.source);
  }
  trained.network->eval();
  return trained;
}

std::vector<Prediction> predict(const Trained& trained, const std::vector<std::string>& files,
                                int top) {
  constexpr std::size_t kAtOnce = 16;
  const Compute compute(trained.recipe);
  const torch::NoGradGuard no_grad;
  std::vector<Prediction> predictions;
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  std::vector<std::size_t> places;  // in predictions, of what is in pixels
  data::Shape shape;
  int views = 1;

  const auto flush = [&] {
    if (places.empty()) return;
    data::Batch batch;
    batch.images = pixels;
    batch.bytes = std::as_writable_bytes(batch.images);
    batch.views = views;
    batch.labels = labels;
    batch.samples = places;
    batch.shape = shape;
    batch.layout = compute.layout();
    torch::Tensor scores;
    {
      const Autocast autocast = compute.autocast();
      scores = compute.scores(trained.network->forward(compute.images(batch)));
    }
    scores = mean_of_views(trained.recipe.loss, scores, views);
    const bool softmax = trained.recipe.loss.name != "one_vs_all";
    const torch::Tensor all = (softmax ? scores.softmax(1) : scores.sigmoid()).to(torch::kDouble);
    const auto [values, indices] = all.topk(std::min<std::int64_t>(top, all.size(1)), 1);
    for (std::size_t row = 0; row < places.size(); ++row) {
      for (std::int64_t i = 0; i < values.size(1); ++i) {
        const auto r = static_cast<std::int64_t>(row);
        const auto index = indices[r][i].item<std::int64_t>();
        const bool named = static_cast<std::size_t>(index) < trained.classes.size();
        predictions[places[row]].best.push_back(
            {index,
             named ? trained.classes[static_cast<std::size_t>(index)] : std::to_string(index),
             values[r][i].item<double>()});
      }
    }
    pixels.clear();
    labels.clear();
    places.clear();
  };

  for (const std::string& file : files) {
    Prediction& prediction = predictions.emplace_back();
    prediction.file = file;
    try {
      const std::vector<std::byte> bytes = read_file(file);
      data::Record record;
      record.bytes = bytes;
      record.encoding = data::encoding_of(bytes);
      data::TransformOptions options = evaluation_transform(trained.recipe.data);
      options.pixel = data::Pixel::f32;
      // Pictures come as they are; the network takes one shape.
      options.channels = trained.input.channels;
      if (trained.recipe.data.size == 0) {
        options.crop = data::Crop::center;
        options.height = trained.input.height;
        options.width = trained.input.width;
        options.resize = std::max(options.height, options.width);
      }
      data::Transformer transformer(options, data::shape_of(record));
      if (!places.empty() && !(transformer.shape() == shape)) flush();
      shape = transformer.shape();
      views = transformer.views();
      std::vector<float> image(shape.elements() * static_cast<std::size_t>(views));
      RandomStream random(0);
      transformer.apply(record, random, compute.layout(), image.data());
      pixels.insert(pixels.end(), image.begin(), image.end());
      labels.push_back(0);
      places.push_back(predictions.size() - 1);
    } catch (const std::exception& error) {
      const std::string text = error.what();
      prediction.error = text.find(file) == std::string::npos ? file + ": " + text : text;
    }
    if (places.size() == kAtOnce) flush();
  }
  flush();
  return predictions;
}

}  // namespace convoy::train
