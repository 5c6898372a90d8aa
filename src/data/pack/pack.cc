#include "convoy/data/pack.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <unordered_set>

#include "base/own_files.h"
#include "base/toml_text.h"
#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "data/pack/converter.h"
#include "data/pack/pipeline.h"
#include "data/pack/source.h"
#include "data/pack/writer.h"
#include "data/packed/names.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

constexpr int kMostThreads = 1024;

// The sample's name in the tar, without extension and without a dot in its last part, where
// WebDataset would cut it.
std::string key_of(const std::string& name) {
  std::string key = plain_path(name);
  const std::size_t last = key.rfind('/') + 1;
  if (const std::size_t dot = key.rfind('.'); dot != key.npos && dot > last) key.resize(dot);
  std::replace(key.begin() + static_cast<std::ptrdiff_t>(last), key.end(), '.', '_');
  return key;
}

// A key for each image, in the order of packing. Two images of one key get different ones.
std::vector<std::string> make_keys(const std::vector<SourceImage>& images,
                                   const std::vector<std::size_t>& order,
                                   std::vector<Renamed>& renamed) {
  std::vector<std::string> keys;
  keys.reserve(order.size());
  std::unordered_set<std::string> used;
  for (const std::size_t i : order) {
    const std::string wanted = key_of(images[i].name);
    std::string key = wanted;
    for (int n = 2; !used.insert(key).second; ++n) key = wanted + "-" + std::to_string(n);
    if (key != wanted) renamed.push_back({images[i].name, key});
    keys.push_back(std::move(key));
  }
  return keys;
}

void validate(const PackOptions& o) {
  const auto require = [](bool good, const std::string& what) {
    if (!good) throw UsageError(what);
  };
  require(!o.out.empty(), "name the tar to write");
  require(o.short_side >= 0 && o.short_side <= 65536,
          "a short side of " + std::to_string(o.short_side) + "; 0 to 65536 is possible");
  require(o.quality >= 1 && o.quality <= 100,
          "a quality of " + std::to_string(o.quality) + "; 1 to 100 is possible");
  require(o.threads >= 1 && o.threads <= kMostThreads,
          std::to_string(o.threads) + " threads; 1 to 1024 are possible");
  std::error_code error;
  require(!fs::is_directory(o.out, error), o.out + " is a folder; name the tar to write");
  require(o.overwrite || !fs::exists(o.out, error),
          o.out + " exists; say --overwrite to replace it");
  check_own_file("OUT", index_path(o.out), kIndexFile);
  check_own_file("OUT", o.out + ".report.tsv", kPackReport);
}

// How the images were made: kept in tar and index.
std::string describe(const PackOptions& o, const PackSource& source, const Vips* vips) {
  std::string text =
      "source = " + toml_string(plain_path(fs::path(o.sources.front()).filename().string())) + "\n";
  const auto say = [&text](const std::string& name, const std::string& value) {
    text += name + " = " + value + "\n";
  };
  if (o.sources.size() > 1) say("sources", std::to_string(o.sources.size()));
  if (!o.below.empty()) say("below", toml_string(plain_path(o.below)));
  if (o.limit > 0) say("limit", std::to_string(o.limit));
  if (o.shuffle) say("shuffle", std::to_string(*o.shuffle));
  if (source.label_lists()) say("labels", "\"any number for each image\"");
  if (o.keep) {
    say("images", source.pixels() ? "\"PNG, lossless\"" : "\"as in the source\"");
    return text;
  }
  say("short_side", std::to_string(o.short_side));
  if (source.pixels()) {
    say("images", "\"PNG, lossless\"");
  } else {
    say("images", "\"JPEG where they were changed\"");
    say("quality", std::to_string(o.quality));
    say("chroma", o.chroma == Chroma::half ? "\"4:2:0\"" : "\"4:4:4\"");
  }
  if (vips != nullptr) say("libvips", "\"" + vips->version() + "\"");
  return text;
}

// What has to be the same for a run to go on with another's work.
std::string identity_of(const std::string& about, const PackSource& source,
                        const std::vector<std::size_t>& order) {
  Xxh3 hash;
  const auto add = [&hash](const std::string& text) {
    hash.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  };
  for (const std::string& name : source.classes()) add(name);
  const std::uint64_t version = source.version();
  hash.update(std::as_bytes(std::span(&version, 1)));
  for (const std::size_t i : order) {
    const SourceImage& image = source.images()[i];
    add(image.name);
    const std::span<const std::uint32_t> labels = source.labels(i);
    const std::uint64_t numbers[] = {image.size, labels.size(),
                                     static_cast<std::uint64_t>(image.time)};
    hash.update(std::as_bytes(std::span(numbers)));
    hash.update(std::as_bytes(labels));
  }
  return about + "xxh3 = " + to_hex(hash.digest()) + "\n";
}

std::vector<std::size_t> make_order(const PackOptions& options, const PackSource& source) {
  std::vector<std::size_t> order;
  if (options.shuffle) {
    if (!source.any_order()) {
      throw UsageError(
          options.sources.front() +
          " is compressed and can only be read in its own order: unpack it to shuffle");
    }
    order = permutation(source.images().size(), *options.shuffle, 0);
  } else {
    order.resize(source.images().size());
    std::iota(order.begin(), order.end(), std::size_t{0});
  }
  if (options.limit > 0 && options.limit < order.size()) order.resize(options.limit);
  return order;
}

void run(const PackOptions& options, PackSource& source, const std::vector<std::size_t>& order,
         const std::vector<std::string>& keys, Converter& converter, PackWriter& writer) {
  PackPipeline pipeline(source, converter, order, writer.taken(), options.threads);
  while (writer.taken() < order.size()) {
    const std::size_t position = writer.taken();
    const SourceImage& image = source.images()[order[position]];
    const PackPipeline::Result result = pipeline.take();
    if (result.problem.empty()) {
      writer.add_record(keys[position], source.labels(order[position]), result.image);
    } else {
      writer.add_bad(image.name, result.problem);
    }
    if (options.tell) {
      options.tell({writer.taken(), order.size(), writer.result().bytes, writer.result().bad});
    }
  }
}

}  // namespace

PackResult pack(const PackOptions& options) {
  validate(options);
  const std::unique_ptr<PackSource> source = open_source(options);
  for (const std::string& name : source->classes()) {
    if (name.find('\n') != name.npos) throw UsageError("a class has a name of several lines");
  }
  const std::vector<std::size_t> order = make_order(options, *source);
  std::vector<Renamed> renamed;
  const std::vector<std::string> keys = make_keys(source->images(), order, renamed);
  Shape shape;
  if (source->pixels()) {
    std::vector<std::byte> scratch;
    shape = source->read(0, scratch).shape;
  }
  std::shared_ptr<const Vips> vips;
  if (Converter::needs_vips(options, source->pixels(), shape)) vips = Vips::load();
  const std::string about = describe(options, *source, vips.get());
  Converter converter(options, vips);
  PackWriter writer(options, identity_of(about, *source, order), source->classes(), about,
                    source->label_lists());
  try {
    run(options, *source, order, keys, converter, writer);
  } catch (...) {
    try {
      writer.save();
    } catch (const Failure&) {
      // The disk is full, as the first error says.
    }
    throw;
  }
  PackResult result = writer.finish(renamed);
  result.others = source->others();
  result.unused_lines = source->unused_lines();
  result.classes_by_first_folders = source->classes_by_first_folders();
  return result;
}

}  // namespace convoy::data
