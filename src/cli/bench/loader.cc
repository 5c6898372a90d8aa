#include "cli/bench/loader.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/median.h"
#include "cli/bench/loader_measure.h"
#include "cli/checks.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

struct LoaderBenchOptions {
  std::vector<std::string> files;
  std::vector<int> threads{1};
  std::string pixel = "float32", layout = "channels_last";
  int size = 224;
  LoaderSettings loader;
  std::string json;
};

data::Pixel pixel_of(const std::string& name) {
  if (name == "bfloat16") return data::Pixel::bf16;
  return name == "uint8" ? data::Pixel::u8 : data::Pixel::f32;
}

double spread(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *most - *least;
}

void report(const LoaderBenchOptions& options, int threads, const LoaderTimes& t, Rows& rows) {
  // Of each repetition by itself: what slows the machine down for a while slows both.
  std::vector<double> fractions;
  for (std::size_t i = 0; i < t.images_per_s.size(); ++i) {
    fractions.push_back(t.images_per_s[i] / t.floor_images_per_s[i]);
  }
  const auto [least, most] = std::minmax_element(fractions.begin(), fractions.end());
  const double images = static_cast<double>(t.images) * static_cast<double>(fractions.size());
  rows.add({{"threads", threads},
            {"size", options.size},
            {"pixel", options.pixel},
            {"layout", options.layout},
            {"batch", options.loader.batch},
            {"repetitions", fractions.size()},
            {"images_per_repetition", t.images},
            {"images_per_s", median(t.images_per_s)},
            {"images_per_s_spread", spread(t.images_per_s)},
            {"floor_images_per_s", median(t.floor_images_per_s)},
            {"floor_images_per_s_spread", spread(t.floor_images_per_s)},
            {"fraction_of_floor", median(fractions)},
            {"fraction_min", *least},
            {"fraction_max", *most},
            {"wait_s", median(t.wait_s)},
            {"wait_s_spread", spread(t.wait_s)},
            {"worker_s_per_image", t.decode_s / images}});
  if (rows.on_standard_output()) return;
  std::printf("%7d %12.0f %6.0f%% %14.0f %6.0f%% %9.1f %%  (%.1f to %.1f) %9.2f s\n", threads,
              median(t.images_per_s), 100 * spread(t.images_per_s) / median(t.images_per_s),
              median(t.floor_images_per_s),
              100 * spread(t.floor_images_per_s) / median(t.floor_images_per_s),
              100 * median(fractions), 100 * *least, 100 * *most, median(t.wait_s));
  std::fflush(stdout);
}

void run_loader(LoaderBenchOptions& options) {
  Rows rows(options.json);
  data::TransformOptions& transform = options.loader.transform;
  transform.crop = data::Crop::random_resized;
  transform.height = transform.width = options.size;
  transform.channels = 3;
  transform.flip = true;
  transform.mean = {0.485f, 0.456f, 0.406f};
  transform.deviation = {0.229f, 0.224f, 0.225f};
  transform.pixel = pixel_of(options.pixel);
  options.loader.layout =
      options.layout == "planar" ? data::Layout::planar : data::Layout::channels_last;
  const auto records = hold_records(options.files);
  if (!rows.on_standard_output()) {
    std::printf(
        "%zu records in memory; random resized crops of %d x %d, mirrored half of the time, to "
        "%s %s, batches of %zu; %d alternating repetitions\n"
        "floor: libjpeg decodes the same crops (accurate DCT, smooth upsampling), nothing else\n",
        records->size(), options.size, options.size, options.layout.c_str(), options.pixel.c_str(),
        options.loader.batch, options.loader.repetitions);
    std::printf("%7s %12s %7s %14s %7s %11s %27s\n", "threads", "images/s", "spread",
                "floor images/s", "spread", "of floor", "next() waited");
  }
  for (const int threads : options.threads) {
    report(options, threads, measure_loader(records, options.loader, threads), rows);
  }
}

}  // namespace

void add_loader_command(CLI::App& bench) {
  const auto options = std::make_shared<LoaderBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "loader", "Decoding and augmenting images, against libjpeg decoding the same crops in turn");
  command
      ->add_option(
          "files", options->files,
          "Packed .tar files of JPEGs (see `convoy pack`); they are read into memory first")
      ->required();
  command->add_option("--threads", options->threads, "Numbers of threads, one row each: 1,2,4")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--size", options->size, "Height and width of the output")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--pixel", options->pixel, "float32, bfloat16 or uint8")
      ->check(CLI::IsMember({"float32", "bfloat16", "uint8"}))
      ->capture_default_str();
  command->add_option("--layout", options->layout, "channels_last or planar")
      ->check(CLI::IsMember({"channels_last", "planar"}))
      ->capture_default_str();
  LoaderSettings& loader = options->loader;
  command->add_option("--batch", loader.batch, "Images per batch")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--ahead", loader.ahead, "Batches prepared ahead")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--repetitions", loader.repetitions,
                   "Times that both sides are measured, in turn")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--seconds", loader.seconds, "How long each side of a repetition takes, about")
      ->check(positive_number())
      ->capture_default_str();
  command
      ->add_option("--json", options->json,
                   "One JSON object per row to this file, '-' for standard output")
      ->check(writes_file(kTableFile));
  command->callback([options] { run_loader(*options); });
}

}  // namespace convoy::cli
