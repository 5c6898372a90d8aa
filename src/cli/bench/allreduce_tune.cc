#include "cli/bench/allreduce_tune.h"

#include <algorithm>
#include <cstdio>

#include "base/median.h"
#include "comm/collectives/allreduce/selection.h"
#include "comm/internals.h"
#include "convoy/base/files.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

// What the usual choice may lose without being replaced: measurements vary by as much.
constexpr double kNoise = 1.05;

std::vector<std::string> algorithms_for(std::size_t bytes) {
  std::vector<std::string> list{"shared",     "recursive-doubling",
                                "ring-rsag",  "multicolor k=ranks",
                                "multicolor", "hierarchical"};
  if (bytes < (64 << 10)) return list;
  for (const char* name : {"ring-rsag", "multicolor k=ranks", "multicolor", "hierarchical"}) {
    for (const char* segment : {"32KiB", "64KiB", "1MiB"})
      list.push_back(std::string(name) + " segment=" + segment);
  }
  if (bytes > (1 << 20)) std::erase(list, "recursive-doubling");
  return list;
}

}  // namespace

std::string rules_of(const std::vector<TunedSize>& sizes, int ranks, int hosts) {
  std::string text;
  std::size_t from = 0;  // the size before this run of equal choices; 0: none
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool last = i + 1 == sizes.size();
    if (!last && sizes[i + 1].choice == sizes[i].choice) continue;
    const std::string first = from == 0 ? "" : std::to_string(from + 1);
    const std::string end = last ? "" : std::to_string(sizes[i].bytes);
    const std::string range = first.empty() && end.empty() ? "" : first + ".." + end + " ";
    text += range + "ranks=" + std::to_string(ranks) + " nodes=" + std::to_string(hosts) + " " +
            sizes[i].choice + ";\n";
    from = sizes[i].bytes;
  }
  return text;
}

void tune_allreduce(const comm::World& world, AllreduceSettings settings,
                    const std::vector<std::size_t>& sizes, const std::string& file) {
  const comm::Communicator& all = world.communicator();
  const comm::Abilities abilities = comm::CommunicatorInternals::abilities(all);
  const bool speaks = world.rank() == 0;
  std::vector<TunedSize> tuned;
  for (std::size_t bytes : sizes) {
    const std::string usual = comm::text_of(comm::CommunicatorInternals::choose(all, bytes));
    settings.candidates.clear();
    for (const std::string& text : algorithms_for(bytes)) {
      const auto choice = comm::parse_allreduce(text, "tuning");
      if (abilities.allow(choice.algorithm))
        settings.candidates.push_back({Candidate::Kind::algorithm, comm::text_of(choice), choice});
    }
    const auto times = AllreduceMeasure(world, settings)
                           .run(std::max<std::size_t>(1, bytes / comm::size_of(settings.type)));
    if (!speaks) continue;
    double best = median(times[0]), usual_time = 0;
    std::string choice = settings.candidates[0].name;
    for (std::size_t i = 0; i < times.size(); ++i) {
      const double time = median(times[i]);
      if (settings.candidates[i].name == usual) usual_time = time;
      if (time >= best) continue;
      best = time;
      choice = settings.candidates[i].name;
    }
    if (usual_time > 0 && usual_time < best * kNoise) {
      choice = usual;
      best = usual_time;
    }
    tuned.push_back({bytes, choice});
    std::printf("%10s  %-36s %10s%s\n", format_bytes(bytes).c_str(), choice.c_str(),
                format_seconds(best).c_str(),
                choice == usual
                    ? ""
                    : (usual_time > 0 ? "  instead of " + usual + ", " + format_seconds(usual_time)
                                      : "  instead of " + usual)
                          .c_str());
    std::fflush(stdout);
  }
  if (!speaks) return;
  const std::string rules =
      rules_of(tuned, world.size(), comm::CommunicatorInternals::locality(all).map.nodes());
  write_file_atomically(file, rules);
  std::printf("rules written to %s; use them with CONVOY_ALLREDUCE=@%s\n", file.c_str(),
              file.c_str());
}

}  // namespace convoy::cli
