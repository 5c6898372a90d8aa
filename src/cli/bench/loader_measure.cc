#include "cli/bench/loader_measure.h"

#include <algorithm>
#include <cmath>

#include "cli/bench/loader_floor.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/data/packed.h"
#include "data/decode/decode.h"
#include "data/transform/crop_plan.h"

namespace convoy::cli {
namespace {

constexpr std::uint64_t kSeed = 1;

class HeldRecords : public data::Dataset {
 public:
  explicit HeldRecords(const std::vector<std::string>& files) : files_(files) {
    bytes_.resize(files_.bytes({0, files_.size()}));
    files_.load({0, files_.size()}, bytes_);
    std::vector<std::byte> scratch;
    std::size_t at = 0;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      const auto length = static_cast<std::size_t>(files_.length(i));
      data::Record record = files_.read(i, scratch);
      record.bytes = std::span(bytes_).subspan(at, length);
      records_.push_back(record);
      at += length;
    }
  }

  std::size_t size() const override { return records_.size(); }
  const std::vector<std::string>& classes() const override { return files_.classes(); }
  data::Record read(std::size_t i, std::vector<std::byte>&) const override { return records_[i]; }
  std::string key(std::size_t i) const override { return files_.key(i); }
  std::int64_t label(std::size_t i) const override { return records_[i].label; }
  std::uint64_t fingerprint() const override { return files_.fingerprint(); }

 private:
  data::PackedFiles files_;
  std::vector<std::byte> bytes_;
  std::vector<data::Record> records_;
};

// What the loader will cut out of each record in an epoch.
std::vector<CropToDecode> crops_of(const data::Dataset& records, const data::Shape& out,
                                   const data::TransformOptions& transform, std::uint64_t epoch) {
  std::vector<CropToDecode> crops;
  std::vector<std::byte> scratch;
  data::JpegDecoder decoder;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const data::Record record = records.read(i, scratch);
    if (record.encoding != data::Encoding::jpeg) {
      throw UsageError(records.key(i) +
                       " is no JPEG; this compares with decoding JPEGs, so all have to be");
    }
    const data::Shape picture = decoder.open(record.bytes);
    RandomStream random = data::sample_stream(kSeed, epoch, i);
    const data::CropPlan cut =
        data::plan_crop(transform, picture.height, picture.width, out, random);
    crops.push_back({record.bytes, decoder.stored(cut.resize ? cut.window : cut.part)});
  }
  return crops;
}

}  // namespace

std::shared_ptr<const data::Dataset> hold_records(const std::vector<std::string>& files) {
  return std::make_shared<HeldRecords>(files);
}

LoaderTimes measure_loader(const std::shared_ptr<const data::Dataset>& records,
                           const LoaderSettings& settings, int threads) {
  data::LoaderOptions options;
  options.batch = settings.batch;
  options.ahead = settings.ahead;
  options.seed = kSeed;
  options.layout = settings.layout;
  options.threads = threads;
  data::Loader loader(records, settings.transform, options);

  std::uint64_t epoch = 0;
  const auto crops = [&](std::size_t epochs) {
    std::vector<CropToDecode> all;
    for (std::size_t e = 0; e < epochs; ++e) {
      const auto more = crops_of(*records, loader.shape(), settings.transform, epoch + e);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  // Begins with nothing prepared, so that all work falls into the time.
  const auto load = [&](std::size_t epochs) {
    loader.seek({epoch, 0, {}});
    const auto began = Clock::now();
    for (std::size_t e = 0; e < epochs; ++e) {
      while (loader.next() != nullptr) {
      }
    }
    return seconds_since(began);
  };

  // Once for the memory, then for how many epochs fill a repetition.
  load(1);
  const auto epochs =
      static_cast<std::size_t>(std::clamp(std::ceil(settings.seconds / load(1)), 1.0, 1e4));
  LoaderTimes times;
  times.images = epochs * records->size();
  const double images = static_cast<double>(times.images);
  const double decode_before = loader.statistics().decode_s;
  for (int repetition = 0; repetition < settings.repetitions; ++repetition, epoch += epochs) {
    const auto list = crops(epochs);
    const auto floor = [&] {
      times.floor_images_per_s.push_back(images / decode_crops(list, threads));
    };
    const auto ours = [&] {
      const double before = loader.statistics().wait_s;
      times.images_per_s.push_back(images / load(epochs));
      times.wait_s.push_back(loader.statistics().wait_s - before);
    };
    // Turns change places, so that neither always runs on the warmer machine.
    repetition % 2 == 0 ? floor() : ours();
    // What was prepared ahead is left alone, and the workers come to rest.
    loader.seek({epoch, 0, {}});
    repetition % 2 == 0 ? ours() : floor();
    loader.seek({epoch, 0, {}});
  }
  times.decode_s = loader.statistics().decode_s - decode_before;
  return times;
}

}  // namespace convoy::cli
