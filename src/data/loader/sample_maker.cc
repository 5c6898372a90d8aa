#include "data/loader/sample_maker.h"

#include <algorithm>
#include <new>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "data/kept_memory.h"

namespace convoy::data {
namespace {

constexpr const char* kNoMemory = ": there is no memory for it on this host";

// Throws the current exception again with the example's name before its message, and behind it, if
// the record is a bad one, what can be done but mend it.
[[noreturn]] void rethrow_naming(const std::string& key, OnBad on_bad) {
  try {
    throw;
  } catch (const UsageError& error) {
    throw UsageError(
        printable(key) + ": " + error.what() +
        (on_bad == OnBad::fail ? "; data.on_bad = \"skip\" leaves such records out" : ""));
  } catch (const Failure& error) {
    throw Failure(printable(key) + ": " + error.what());
  } catch (const std::bad_alloc&) {
    throw Failure(printable(key) + kNoMemory);
  }
}

}  // namespace

Shape output_shape(const Dataset& dataset, const TransformOptions& transform, OnBad on_bad) {
  std::vector<std::byte> scratch;
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    const auto good = [&](const auto& look) {
      try {
        look();
        return true;
      } catch (const UsageError&) {
        if (on_bad == OnBad::skip && i + 1 < dataset.size()) return false;
        rethrow_naming(dataset.key(i), on_bad);
      } catch (const std::bad_alloc&) {
        if (on_bad == OnBad::skip && i + 1 < dataset.size()) return false;
        rethrow_naming(dataset.key(i), on_bad);
      }
    };
    Record record;
    Shape stored;
    if (!good([&] { stored = shape_of(record = dataset.read(i, scratch)); })) continue;
    Transformer transformer(transform, stored);
    if (good([&] { transformer.check(record); })) return transformer.shape();
  }
  throw UsageError("the dataset is empty");
}

std::string color_made_gray(const Dataset& dataset) {
  constexpr std::size_t kLooked = 64;
  std::vector<std::byte> scratch;
  // 0 of what can't be read, which output_shape() passes over, and of pixels: those all have the
  // same.
  const auto channels = [&](std::size_t i) {
    try {
      const Record record = dataset.read(i, scratch);
      const bool file = record.encoding == Encoding::jpeg || record.encoding == Encoding::png;
      return file ? shape_of(record).channels : 0;
    } catch (const UsageError&) {
      return 0;
    } catch (const Failure&) {
      return 0;
    } catch (const std::bad_alloc&) {
      return 0;
    }
  };
  if (!dataset.pictures()) return "";
  const std::size_t count = std::min(dataset.size(), kLooked);
  std::size_t first = 0;
  while (first < count && channels(first) == 0) ++first;
  if (first == count || channels(first) != 1) return "";
  for (std::size_t k = 1; k < count; ++k) {
    const std::size_t i = k * dataset.size() / count;
    if (channels(i) == 3)
      return printable(dataset.key(first)) + ", the first picture, is gray, and " +
             printable(dataset.key(i)) + " is in color";
  }
  return "";
}

SampleMaker::SampleMaker(std::shared_ptr<const Dataset> dataset, const TransformOptions& transform,
                         const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      transform_(transform),
      options_(options),
      label_lists_(dataset_->label_lists()),
      shape_(options.raw ? Shape() : output_shape(*dataset_, transform, options.on_bad)) {
  if (options.raw) return;
  // All records must become what the first one is.
  transform_.height = shape_.height;
  transform_.width = shape_.width;
  views_ = Transformer(transform_, shape_).views();
  sample_bytes_ = shape_.elements() * static_cast<std::size_t>(views_) * size_of(transform_.pixel);
}

Pixels SampleMaker::memory_for(std::size_t samples) const {
  const std::size_t bytes = samples * sample_bytes_;
  return options_.memory && bytes > 0 ? pixels_of(options_.memory(bytes)) : make_pixels(bytes);
}

void SampleMaker::make(Slot& slot, std::size_t place, Scratch& scratch) {
  struct GivesBack {
    ~GivesBack() { give_back(bytes); }
    std::vector<std::byte>& bytes;
  };
  const GivesBack gives_back{scratch.bytes};
  if (!options_.raw && !scratch.transformer) scratch.transformer.emplace(transform_, shape_);
  const std::size_t sample = slot.samples[place];
  try {
    const Record record = dataset_->read(sample, scratch.bytes);
    slot.labels[place] = record.label;
    if (label_lists_) slot.label_lists[place] = dataset_->labels(sample);
    if (options_.raw) {
      give_back(slot.records[place]);
      slot.records[place].assign(record.bytes.begin(), record.bytes.end());
    } else {
      RandomStream random = sample_stream(options_.seed, slot.epoch, sample);
      scratch.transformer->apply(record, random, options_.layout,
                                 &slot.images[place * sample_bytes_]);
    }
  } catch (const UsageError& error) {
    if (options_.on_bad == OnBad::fail) rethrow_naming(dataset_->key(sample), options_.on_bad);
    slot.bad[place] = 1;
    skip(sample, printable(dataset_->key(sample)) + ": " + error.what());
  } catch (const std::bad_alloc&) {
    if (options_.on_bad == OnBad::fail) rethrow_naming(dataset_->key(sample), options_.on_bad);
    slot.bad[place] = 1;
    skip(sample, printable(dataset_->key(sample)) + kNoMemory);
  }
}

void SampleMaker::skip(std::size_t sample, const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    if (!named_.insert(sample).second) return;
  }
  if (options_.on_skip) options_.on_skip(message);
}

void SampleMaker::close_gaps(Slot& slot) const {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < slot.samples.size(); ++i) {
    if (slot.bad[i]) continue;
    if (kept != i && options_.raw) slot.records[kept].swap(slot.records[i]);
    if (kept != i && label_lists_) slot.label_lists[kept].swap(slot.label_lists[i]);
    if (kept != i) {
      std::copy_n(&slot.images[i * sample_bytes_], sample_bytes_,
                  &slot.images[kept * sample_bytes_]);
      slot.samples[kept] = slot.samples[i];
      slot.labels[kept] = slot.labels[i];
    }
    ++kept;
  }
  slot.skipped = slot.samples.size() - kept;
  slot.samples.resize(kept);
  slot.labels.resize(kept);
  slot.taken = kept;
}

}  // namespace convoy::data
