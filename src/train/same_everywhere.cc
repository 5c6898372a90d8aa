#include "train/same_everywhere.h"

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/train/recipe.h"

namespace convoy::train {
namespace {

// `difference(rank)` is asked only for ranks whose text is not rank 0's.
template <class Difference>
void check(const comm::Communicator& communicator, const std::string& text,
           const Difference& difference) {
  const std::vector<std::string> all = communicator.gather_text(text);
  std::string message;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    message += (message.empty() ? "" : "\n") + ("rank " + std::to_string(rank)) + ": " +
               difference(all[rank], all[0]);
  }
  if (!message.empty()) throw UsageError(message);
}

}  // namespace

void check_same_recipe(const comm::Communicator& communicator, const std::string& printed) {
  check(communicator, printed, [](const std::string& theirs, const std::string& first) {
    return "the recipe is another one than on rank 0: " +
           recipe_difference(theirs, first, "on rank 0");
  });
}

void check_same_data(const comm::Communicator& communicator, const data::Dataset& dataset,
                     const std::string& key) {
  const std::string text =
      std::to_string(dataset.size()) + " samples, fingerprint " + to_hex(dataset.fingerprint());
  check(communicator, text, [&key](const std::string& theirs, const std::string& first) {
    return key + " is another data set than on rank 0: " + theirs + " against " + first;
  });
}

}  // namespace convoy::train
