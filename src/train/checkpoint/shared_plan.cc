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

void SharedPlan::update(const comm::Communicator& all, const std::string& outcome,
                        const std::vector<HeldSlice>& held) {
  const std::string text = outcome[0] == kDone ? to_text(held) : "";
  const std::string mine =
      outcome[0] == kDone ? kDone + to_hex(xxh3(std::as_bytes(std::span(text)))) : outcome;
  const std::vector<std::string> hashes = all.gather_text(mine);
  for (const std::string& hash : hashes) result_of(hash);
  if (hashes == hashes_) return;
  std::map<std::string, std::size_t> place;
  std::vector<std::size_t> of_rank;
  std::vector<int> speaker;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    const auto [found, fresh] = place.try_emplace(hashes[rank], place.size());
    if (fresh) speaker.push_back(static_cast<int>(rank));
    of_rank.push_back(found->second);
  }
  std::vector<std::vector<HeldSlice>> distinct;
  for (const int rank : speaker) distinct.push_back(held_from_text(all.broadcast_text(text, rank)));
  plan_ = std::make_unique<const Plan>(plan_checkpoint(distinct, of_rank));
  hashes_ = hashes;
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
