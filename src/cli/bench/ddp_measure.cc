#include "cli/bench/ddp_measure.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/training/signals.h"
#include "convoy/base/error.h"
#include "convoy/model/blueprint.h"
#include "convoy/model/factory.h"

namespace convoy::cli {
namespace {

bool has_dropout(const std::string& name) {
  const model::Blueprint network = model::make_blueprint(name);
  for (const model::StageSpec& stage : network.stages) {
    for (const model::Node& node : stage.nodes) {
      const auto* dropout = std::get_if<model::layer::Dropout>(&node.kind);
      if (dropout != nullptr && dropout->probability > 0) return true;
    }
  }
  return false;
}

// One side while it is measured.
struct LiveSide {
  std::size_t place = 0;  // in DdpComparison::sides
  std::unique_ptr<DdpRanks> ranks;
};

class DdpMeasurement {
 public:
  DdpMeasurement(const DdpSetting& setting, const DdpPeer& peer, const DdpTurns& turns)
      : setting_(setting), peer_(peer), turns_(turns) {
    result_.model = setting.model;
    result_.ranks = setting.ranks;
    result_.threads = setting.threads;
    result_.batch_per_rank = setting.batch_per_rank;
    result_.allocator = setting.allocator.name;
    result_.draws = has_dropout(setting.model);
  }

  DdpComparison run(std::size_t samples) {
    result_.comparable = samples / static_cast<std::size_t>(images_of_step());
    start_all();
    if (comparable()) take_turns();
    if (!comparable()) {
      for (DdpSide& side : result_.sides) {
        if (side.error.empty()) side.error = "there is nothing to compare it with";
      }
    }
    return std::move(result_);
  }

 private:
  // Places in the result.
  static constexpr std::size_t kConvoy = 0, kDdp = 1;

  bool comparable() const {
    return result_.sides[kConvoy].error.empty() && result_.sides[kDdp].error.empty();
  }

  double images_of_step() const {
    return static_cast<double>(setting_.batch_per_rank) * setting_.ranks;
  }

  DdpSide& add_side(const std::string& name) {
    DdpSide side;
    side.name = name;
    result_.sides.push_back(std::move(side));
    return result_.sides.back();
  }

  // Starts a side and has it make its first step.
  void start(const std::string& name, const std::function<std::unique_ptr<DdpRanks>()>& make) {
    std::fprintf(stderr, "ddp: %s on %d rank%s: starting %s\n", setting_.model.c_str(),
                 setting_.ranks, setting_.ranks == 1 ? "" : "s", name.c_str());
    const std::size_t place = result_.sides.size();
    add_side(name);
    guarded(place, [&] {
      live_.push_back({place, make()});
      result_.sides[place].first_step_s = make_steps(live_.back(), 1);
    });
    // Nothing of it stays beside the others.
    if (!result_.sides[place].error.empty() && !live_.empty() && live_.back().place == place)
      live_.back().ranks.reset();
  }

  void start_all() {
    std::vector<RankPlace> places;
    start("convoy", [&]() -> std::unique_ptr<DdpRanks> {
      auto ranks = std::make_unique<ConvoyRanks>(setting_);
      places = ranks->places();
      return ranks;
    });
    // Its ranks have written the weights that the others begin with.
    if (!result_.sides[kConvoy].error.empty()) {
      add_side("ddp").error = "there are no first weights for it";
      return;
    }
    const auto start_python = [&](const char* name, bool compile) {
      start(name, [&]() -> std::unique_ptr<DdpRanks> {
        return std::make_unique<PythonRanks>(setting_, peer_, places, compile);
      });
    };
    start_python("ddp", false);
    if (turns_.compile && comparable()) start_python("ddp_compile", true);
  }

  void take_turns() {
    constexpr int kWarmUpSteps = 2;
    double step = 0;  // of Convoy's
    for_each_side(0, [&](LiveSide& side) {
      const double seconds = make_steps(side, kWarmUpSteps) / kWarmUpSteps;
      if (side.place == kConvoy) step = seconds;
    });
    if (!comparable()) return;
    result_.steps =
        turns_.steps > 0
            ? turns_.steps
            : static_cast<int>(std::clamp(std::ceil(turns_.seconds / step), 2.0, 5000.0));
    for (int repetition = 0; repetition < turns_.repetitions && comparable(); ++repetition) {
      // Who begins changes, so that none always runs on the warmer machine.
      for_each_side(static_cast<std::size_t>(repetition), [&](LiveSide& side) {
        const double seconds = make_steps(side, result_.steps);
        result_.sides[side.place].images_per_s.push_back(images_of_step() * result_.steps /
                                                         seconds);
      });
    }
  }

  // Those that nothing is wrong with, from one on. What fails has had its last turn.
  void for_each_side(std::size_t first, const std::function<void(LiveSide&)>& turn) {
    for (std::size_t i = 0; i < live_.size(); ++i) {
      LiveSide& side = live_[(first + i) % live_.size()];
      const std::string& error = result_.sides[side.place].error;
      if (error.empty()) guarded(side.place, [&] { turn(side); });
      if (!error.empty()) side.ranks.reset();
    }
  }

  // The seconds that so many steps take.
  double make_steps(const LiveSide& side, int steps) {
    const RowAnswer answer = side.ranks->run(steps);
    std::vector<double>& losses = result_.sides[side.place].losses;
    losses.insert(losses.end(), answer.losses.begin(), answer.losses.end());
    result_.sides[side.place].torch = answer.torch;
    return answer.seconds;
  }

  void guarded(std::size_t place, const std::function<void()>& body) {
    try {
      body();
    } catch (const Failure& error) {
      if (stop_signal_came()) throw;
      result_.sides[place].error = message_of(error);
      std::fprintf(stderr, "ddp: %s\n", error.what());
    }
  }

  const DdpSetting& setting_;
  const DdpPeer& peer_;
  const DdpTurns& turns_;
  DdpComparison result_;
  std::vector<LiveSide> live_;
};

}  // namespace

DdpComparison compare_with_ddp(const DdpSetting& setting, const DdpPeer& peer,
                               const DdpTurns& turns, std::size_t samples) {
  return DdpMeasurement(setting, peer, turns).run(samples);
}

}  // namespace convoy::cli
