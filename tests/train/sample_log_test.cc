#include "train/logging/sample_log.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/base/scratch.h"

namespace convoy::train {
namespace {

// Batches of two samples of ten.
class Pairs final : public data::SampleSource {
 public:
  std::size_t size() const override { return 10; }
  std::size_t batches_per_epoch() const override { return 5; }
  std::size_t batches_left() const override { return 5 - position_.count() / 2; }
  data::Shape shape() const override { return {}; }
  void seek(const data::Position& position) override { position_ = position; }
  const data::Batch* next() override {
    const std::size_t first = position_.count();
    samples_ = {first, first + 1};
    position_.consumed = {{0, first + 2}};
    batch_.samples = samples_;
    return &batch_;
  }
  data::Position position() const override { return position_; }
  bool epoch_over() const override { return position_.count() == 10; }
  data::SourceStatistics statistics() const override { return {}; }

 private:
  data::Position position_;
  std::vector<std::size_t> samples_;
  data::Batch batch_;
};

// Of a rank on a host that sees another folder than the one where lines of later steps were dropped
// for all.
TEST(SampleLog, EachRankGoesOnWithItsOwnFromTheStepOfTheCheckpoint) {
  const test::Scratch scratch;
  const auto log = [&](int from, int to) {
    SampleLog samples(std::make_unique<Pairs>(), scratch.path("samples"), 2);
    samples.open(from);
    data::Position position;
    if (from > 0) position.consumed = {{0, static_cast<std::size_t>(2 * from)}};
    samples.seek(position);
    for (int step = from; step < to; ++step) {
      samples.next();
      samples.commit(step + 1);
    }
    return test::slurp(scratch.path("samples/rank-2.log"));
  };
  EXPECT_EQ(log(0, 3), "1 0 0 1\n2 0 2 3\n3 0 4 5\n");
  EXPECT_EQ(log(1, 2), "1 0 0 1\n2 0 2 3\n");
  EXPECT_EQ(log(-1, -1), "") << "a run that begins";
}

}  // namespace
}  // namespace convoy::train
