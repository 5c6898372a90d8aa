#include "train/checkpoint/shared_plan.h"

#include <cstdio>
#include <map>
#include <random>
#include <span>

#include "convoy/base/checksum.h"
#include "convoy/base/files.h"
#include "train/outcome.h"
#include "train/rank_work.h"

namespace convoy::train {

namespace {

std::string hash_of(const std::string& text) {
  return to_hex(xxh3(std::as_bytes(std::span(text))));
}

// Texts of ranks that are known by their hashes.
struct Distinct {
  std::vector<std::string> texts;    // each once
  std::vector<std::size_t> of_rank;  // places in them
};

Distinct tell(const comm::Communicator& all, const std::vector<std::string>& hashes,
              const std::string& own) {
  Distinct distinct;
  std::map<std::string, std::size_t> place;
  std::vector<int> speaker;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    const auto [found, fresh] = place.try_emplace(hashes[rank], place.size());
    if (fresh) speaker.push_back(static_cast<int>(rank));
    distinct.of_rank.push_back(found->second);
  }
  for (const int rank : speaker) {
    distinct.texts.push_back(speaker.size() == 1 ? own : all.broadcast_text(own, rank));
  }
  return distinct;
}

}  // namespace

std::vector<std::string> SharedPlan::update(const comm::Communicator& all,
                                            const std::string& outcome,
                                            const std::vector<HeldSlice>& held,
                                            const std::string& words) {
  const bool done = outcome[0] == kDone;
  const std::string text = done ? to_text(held) : "";
  std::vector<std::string> hashes, hashes_of_words;
  for (const std::string& told :
       all.gather_text(done ? kDone + hash_of(text) + hash_of(words) : outcome)) {
    const std::string both = result_of(told);
    hashes.push_back(both.substr(0, both.size() / 2));
    hashes_of_words.push_back(both.substr(both.size() / 2));
  }
  if (hashes != hashes_) {
    const Distinct distinct = tell(all, hashes, text);
    std::vector<std::vector<HeldSlice>> slices;
    for (const std::string& one : distinct.texts) slices.push_back(held_from_text(one));
    plan_ = std::make_unique<const Plan>(plan_checkpoint(slices, distinct.of_rank));
    hashes_ = hashes;
  }
  return tell(all, hashes_of_words, words).texts;
}

std::vector<bool> who_sees(const comm::Communicator& all, const std::string& folder) {
  std::vector<bool> sees(static_cast<std::size_t>(all.size()), true);
  if (all.size() == 1) return sees;
  const std::string path = folder + "/.token";
  const std::string token = on_rank_0(all, [&path] {
    std::random_device random;
    const std::string made = to_hex(std::uint64_t{random()} << 32 | random());
    write_file_atomically(path, made);
    return made;
  });
  std::string found;
  try {
    found = read_text_file(path);
  } catch (const std::exception&) {  // not there, or not for this rank
  }
  const auto answers = all.gather_text(all.rank() == 0 || found == token ? "yes" : "no");
  for (std::size_t rank = 0; rank < answers.size(); ++rank) sees[rank] = answers[rank] == "yes";
  if (all.rank() == 0) std::remove(path.c_str());
  return sees;
}

}  // namespace convoy::train
