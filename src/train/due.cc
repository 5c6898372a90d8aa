#include "train/due.h"

#include <algorithm>

namespace convoy::train {

Moment moment_of(const data::SampleSource& source, const Recipe& recipe, std::int64_t step) {
  const data::Position position = source.position();
  Moment now;
  now.epoch = position.epoch;
  now.consumed = position.count();
  now.samples = source.size();
  now.epoch_over = source.epoch_over();
  now.step = step;
  now.steps = std::max(step, recipe.training.steps);
  if (recipe.training.steps > 0) return now;
  const std::size_t in_this = now.epoch_over ? 0 : source.batches_left();
  const auto begun = static_cast<std::int64_t>(now.epoch + 1);
  const std::int64_t further = std::max<std::int64_t>(recipe.training.epochs - begun, 0);
  if (!is_done(recipe.training, now)) {
    now.steps += static_cast<std::int64_t>(in_this) +
                 further * static_cast<std::int64_t>(source.batches_per_epoch());
  }
  return now;
}

bool is_done(const TrainingRecipe& training, const Moment& now) {
  if (training.steps > 0) return now.step >= training.steps;
  return now.whole_epochs() >= static_cast<std::uint64_t>(training.epochs);
}

Due due(const Recipe& recipe, const Moment& now, std::uint32_t requests) {
  const bool done = is_done(recipe.training, now);
  const bool stop = (requests & kStop) != 0;
  const auto each = [](std::int64_t every, std::uint64_t count) {
    return every > 0 && count % static_cast<std::uint64_t>(every) == 0;
  };
  const auto epoch_is_due = [&](std::int64_t every) {
    return now.epoch_over && each(every, now.whole_epochs());
  };
  Due due;
  const auto step = static_cast<std::uint64_t>(now.step);
  due.evaluate = recipe.evaluates() && !stop &&
                 (done || epoch_is_due(recipe.evaluation.every_epochs) ||
                  (step > 0 && each(recipe.evaluation.every_steps, step)));
  due.end_epoch = now.epoch_over;
  due.checkpoint = done || stop || (requests & kCheckpoint) != 0 ||
                   each(recipe.checkpoint.every_steps, step) ||
                   epoch_is_due(recipe.checkpoint.every_epochs);
  due.end = done || stop;
  return due;
}

Due due_since(const Recipe& recipe, const Moment& before, const Moment& now,
              std::uint32_t requests) {
  const bool done = is_done(recipe.training, now);
  const bool stop = (requests & kStop) != 0;
  const auto passed = [](std::int64_t every, std::uint64_t from, std::uint64_t to) {
    const auto n = static_cast<std::uint64_t>(every);
    return every > 0 && to / n > from / n;
  };
  const auto epochs_passed = [&](std::int64_t every) {
    return passed(every, before.whole_epochs(), now.whole_epochs());
  };
  const auto steps_passed = [&](std::int64_t every) {
    return passed(every, static_cast<std::uint64_t>(before.step),
                  static_cast<std::uint64_t>(now.step));
  };
  Due due;
  due.evaluate = recipe.evaluates() && !stop &&
                 (done || epochs_passed(recipe.evaluation.every_epochs) ||
                  steps_passed(recipe.evaluation.every_steps));
  due.end_epoch = epochs_passed(1);
  due.checkpoint = done || stop || (requests & kCheckpoint) != 0 ||
                   steps_passed(recipe.checkpoint.every_steps) ||
                   epochs_passed(recipe.checkpoint.every_epochs);
  due.end = done || stop;
  return due;
}

Due due_at_start(const Recipe& recipe, const Moment& now, bool epoch_was_over) {
  Due due = train::due(recipe, now, 0);
  due.end_epoch = due.end_epoch && !epoch_was_over;
  due.checkpoint = due.evaluate || due.end;
  return due;
}

bool is_over(const data::Position& position, std::size_t samples, const Recipe& recipe) {
  const data::EpochCursor rest(samples, position.count(), 0, 1, recipe.data.drop_last);
  return rest.steps_left(static_cast<std::size_t>(recipe.training.batch)) == 0;
}

}  // namespace convoy::train
