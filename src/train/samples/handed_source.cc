#include "train/samples/handed_source.h"

#include <array>
#include <numeric>
#include <utility>

#include "convoy/base/error.h"
#include "train/outcome.h"

namespace convoy::train {
namespace {

// What a batch is, before what is in it.
struct Header {
  enum {
    kThere,
    kSamples,
    kBytes,
    kRaw,
    kLabelLists,
    kChannels,
    kHeight,
    kWidth,
    kLayout,
    kPixel,
    kViews,
    kSize
  };
  std::array<std::int64_t, kSize> values{};
};

constexpr std::int64_t kFailedToRead = 2;  // Header::kThere, and the outcome follows

template <class T>
void broadcast(const comm::Communicator& group, std::vector<T>& values) {
  if (values.empty()) return;
  auto* const bytes = reinterpret_cast<std::uint8_t*>(values.data());
  group.broadcast(comm::Buffer(bytes, values.size() * sizeof(T), comm::Type::u8), 0);
}

Header header_of(const data::Batch* batch) {
  Header header;
  auto& v = header.values;
  if (batch == nullptr) return header;
  v[Header::kThere] = 1;
  v[Header::kSamples] = static_cast<std::int64_t>(batch->size());
  v[Header::kBytes] = static_cast<std::int64_t>(batch->bytes.size());
  v[Header::kRaw] = batch->records.empty() ? 0 : 1;
  v[Header::kLabelLists] = batch->label_lists.empty() ? 0 : 1;
  v[Header::kChannels] = batch->shape.channels;
  v[Header::kHeight] = batch->shape.height;
  v[Header::kWidth] = batch->shape.width;
  v[Header::kLayout] = static_cast<std::int64_t>(batch->layout);
  v[Header::kPixel] = static_cast<std::int64_t>(batch->pixel);
  v[Header::kViews] = batch->views;
  return header;
}

}  // namespace

HandedSource::HandedSource(std::unique_ptr<data::SampleSource> own, const comm::Communicator& group)
    : own_(std::move(own)), group_(group.duplicate()) {}

const data::Batch* HandedSource::next() {
  const data::Batch* own = nullptr;
  const std::string outcome = outcome_of([&] { own = own_->next(); });
  // The others wait for the batch: they throw the same.
  if (outcome[0] != kDone && group_.rank() == 0) {
    Header header;
    header.values[Header::kThere] = kFailedToRead;
    group_.broadcast(comm::buffer_of(header.values), 0);
    group_.broadcast_text(outcome, 0);
  }
  result_of(outcome);
  if (group_.rank() == 0) return hand_on(own);
  const data::Batch* const handed = receive();
  if ((own == nullptr) != (handed == nullptr))
    throw Failure("ranks of a group have come to different places of an epoch");
  return handed;
}

template <class T>
void HandedSource::send_lists(std::span<const std::vector<T>> lists) {
  std::vector<T> all;
  lengths_.clear();
  for (const std::vector<T>& list : lists) {
    lengths_.push_back(list.size());
    all.insert(all.end(), list.begin(), list.end());
  }
  broadcast(group_, lengths_);
  broadcast(group_, all);
}

template <class T>
void HandedSource::receive_lists(std::vector<std::vector<T>>& lists) {
  lengths_.resize(lists.size());
  broadcast(group_, lengths_);
  std::vector<T> all(std::accumulate(lengths_.begin(), lengths_.end(), std::size_t{0}));
  broadcast(group_, all);
  auto from = all.begin();
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const auto to = from + static_cast<std::ptrdiff_t>(lengths_[i]);
    lists[i].assign(from, to);
    from = to;
  }
}

const data::Batch* HandedSource::hand_on(const data::Batch* batch) {
  Header header = header_of(batch);
  group_.broadcast(comm::buffer_of(header.values), 0);
  if (batch == nullptr || batch->size() == 0) return batch;
  samples_.assign(batch->samples.begin(), batch->samples.end());
  labels_.assign(batch->labels.begin(), batch->labels.end());
  broadcast(group_, samples_);
  broadcast(group_, labels_);
  if (!batch->label_lists.empty()) send_lists(batch->label_lists);
  if (batch->records.empty()) {
    // Sent from where it lies.
    auto* const bytes = reinterpret_cast<std::uint8_t*>(batch->bytes.data());
    group_.broadcast(comm::Buffer(bytes, batch->bytes.size(), comm::Type::u8), 0);
    return batch;
  }
  send_lists(batch->records);
  return batch;
}

const data::Batch* HandedSource::receive() {
  Header header;
  group_.broadcast(comm::buffer_of(header.values), 0);
  const auto& v = header.values;
  if (v[Header::kThere] == kFailedToRead) result_of(group_.broadcast_text("", 0));
  if (v[Header::kThere] == 0) return nullptr;
  const auto size = static_cast<std::size_t>(v[Header::kSamples]);
  samples_.resize(size);
  labels_.resize(size);
  records_.resize(v[Header::kRaw] != 0 ? size : 0);
  broadcast(group_, samples_);
  broadcast(group_, labels_);
  label_lists_.resize(v[Header::kLabelLists] != 0 ? size : 0);
  receive_lists(label_lists_);
  if (v[Header::kRaw] != 0) {
    receive_lists(records_);
  } else {
    bytes_.resize(static_cast<std::size_t>(v[Header::kBytes]));
    broadcast(group_, bytes_);
  }
  batch_ = {};
  batch_.samples = samples_;
  batch_.labels = labels_;
  batch_.label_lists = label_lists_;
  batch_.records = records_;
  batch_.shape = {static_cast<int>(v[Header::kChannels]), static_cast<int>(v[Header::kHeight]),
                  static_cast<int>(v[Header::kWidth])};
  batch_.layout = static_cast<data::Layout>(v[Header::kLayout]);
  batch_.pixel = static_cast<data::Pixel>(v[Header::kPixel]);
  batch_.views = static_cast<int>(v[Header::kViews]);
  if (records_.empty()) {
    batch_.bytes = bytes_;
    if (batch_.pixel == data::Pixel::f32 && size > 0) {
      batch_.images = {reinterpret_cast<float*>(bytes_.data()), bytes_.size() / sizeof(float)};
    }
  }
  return &batch_;
}

}  // namespace convoy::train
