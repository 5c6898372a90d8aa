// What `convoy bench downpour` compares: the paper's methods (Dean et al. 2012, section 5) on one
// recipe. Torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/train/recipe.h"

namespace convoy::cli {

enum class Method : std::uint8_t {
  sgd,          // one plain worker
  fixed,        // Downpour SGD with a fixed rate
  adagrad,      // Downpour SGD with Adagrad
  sandblaster,  // a method on the whole batch, as [sandblaster] says
  sync,         // synchronous SGD on as many workers
  gpu           // one plain worker whose network is on a GPU
};
inline constexpr Method kMethods[] = {Method::sgd,         Method::fixed, Method::adagrad,
                                      Method::sandblaster, Method::sync,  Method::gpu};

const char* name(Method method);   // as --methods has it
const char* title(Method method);  // for people
inline bool is_downpour(Method m) { return m == Method::fixed || m == Method::adagrad; }
// Whether it is a job around a parameter server: evaluations don't hold up who trains.
inline bool has_servers(Method m) { return is_downpour(m) || m == Method::sandblaster; }
inline bool is_one_worker(Method m) { return m == Method::sgd || m == Method::gpu; }

// The command line.
struct ComparisonWords {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string methods = "sgd,fixed,adagrad,sandblaster,gpu";
  std::string replicas, exchange, rates;  // empty: as the recipe has it
  int seeds = 1;
  std::int64_t warm_steps = 0;
  std::int64_t iterations = 50;  // of sandblaster
  std::optional<double> level;
  double link_gbit = 0;  // of the projection; 0: there is none
  std::string project;   // numbers of replicas that only it has
  std::string hosts, certificates;
  std::string folder;  // empty: runs/<name>-comparison
  bool overwrite = false;
  std::string json;
};

// One training.
struct Arm {
  std::string name;  // of its folder: "adagrad-4-f5-p20-s1"
  Method method = Method::sgd;
  int replicas = 1;
  std::int64_t n_fetch = 0, n_push = 0;  // 0: not Downpour
  std::int64_t seed = 1;
  int processes = 1;  // that train: replicas x partitions
  train::Recipe recipe;
};

struct Comparison {
  train::Recipe recipe;  // what all have, and what the arms differ from
  std::string folder;    // absolute
  std::string hosts;     // of the runs: --hosts, or the recipe's; empty: this one
  std::vector<Arm> arms;
  std::optional<Arm> warm;         // the training that all of them go on from
  std::vector<std::string> notes;  // lines for people
};

// Where the weights of the common warm start are.
std::string warm_weights(const std::string& folder);

// Throws UsageError naming the option, or the arm and what is wrong with its recipe. Files that
// the recipe names have to exist. `has_gpu`: whether networks can be on one here; where they can't,
// the method that needs one is left out, and a note says so.
Comparison make_comparison(const train::RecipeText& text, const ComparisonWords& words,
                           const train::Vocabulary& vocabulary, bool has_gpu = false);

// "4 replicas, n_fetch 5, n_push 20, seed 2": what tells an arm from others of its method, as far
// as they differ in it. Empty where it is the only one.
std::string told_apart(const Arm& arm, const std::vector<const Arm*>& others);
// Gives the title with the method before it.
std::string full_title(const Arm& arm, const std::vector<const Arm*>& others);

}  // namespace convoy::cli
