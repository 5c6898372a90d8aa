#include "cli/bench/ddp_sides.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/bench/peer_script.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

constexpr const char* kTcmalloc = "libtcmalloc_minimal.so.4";
constexpr std::chrono::minutes kCompilePatience{60};

// That of this process, if it is another than the C library's.
std::string mapped_allocator() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find('/');
    if (at == line.npos) continue;
    const std::filesystem::path file = line.substr(at);
    const std::string name = file.filename().string();
    for (const char* known : {"libtcmalloc", "libjemalloc", "libmimalloc"}) {
      if (name.starts_with(known)) return file.string();
    }
  }
  return "";
}

// The path of a library that is named without one, or "".
std::string find_library_file(const std::string& name) {
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                             "/usr/lib64", "/usr/local/lib", "/usr/lib"}) {
    const auto file = std::filesystem::path(folder) / name;
    if (std::filesystem::exists(file)) return file.string();
  }
  return "";
}

// Memory is never mapped for a block alone, and the end of the heap stays, in huge pages if there
// are any: what was freed is used again, as Convoy does it.
DdpAllocator kept_by_glibc() {
  return {"glibc",
          {{"MALLOC_MMAP_MAX_", "0"},
           {"MALLOC_TRIM_THRESHOLD_", std::to_string(std::int64_t{1} << 40)},
           {"MALLOC_TOP_PAD_", std::to_string(64 << 20)},
           {"GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"}}};
}

DdpAllocator preloaded(const std::string& file) {
  const std::string before = environment("LD_PRELOAD");
  const bool has_it = before.find(file) != before.npos;
  return {std::filesystem::path(file).filename().string(),
          {{"LD_PRELOAD", has_it           ? before
                          : before.empty() ? file
                                           : file + ":" + before}}};
}

RowEnvironment environment_of_side(const DdpSetting& setting) {
  RowEnvironment all = setting.allocator.environment;
  all.emplace_back("OMP_NUM_THREADS", std::to_string(setting.threads));
  return all;
}

std::vector<std::string> command_of_ranks(const DdpSetting& setting) {
  const std::string program = own_program().string();
  std::vector<std::string> words;
  if (setting.ranks > 1) {
    words = {program,     "run",
             "-n",        std::to_string(setting.ranks),
             "--threads", std::to_string(setting.threads),
             "--"};
  }
  words.insert(words.end(), {program, "bench", "ddp", "--models", setting.model, "--batch-per-rank",
                             std::to_string(setting.batch_per_rank), "--serve", setting.folder});
  for (const std::string& override : setting.overrides)
    words.insert(words.end(), {"--set", override});
  return words;
}

std::vector<std::string> command_of_peer(const DdpSetting& setting, const DdpPeer& peer, int rank,
                                         bool compile) {
  const train::Recipe& recipe = setting.recipe;
  std::vector<std::string> words{peer.python, peer.script};
  const auto add = [&words](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  const auto add_number = [&add](const char* option, double value) {
    add(option, nlohmann::json(value).dump());  // without loss
  };
  add("--folder", setting.folder);
  add("--model", setting.model);
  add("--rank", std::to_string(rank));
  add("--ranks", std::to_string(setting.ranks));
  add("--batch", std::to_string(setting.batch_per_rank));
  add("--threads", std::to_string(setting.threads));
  for (const char* side : {"channels", "height", "width"})
    add(("--" + std::string(side)).c_str(), std::to_string(recipe.data.train.integer(side)));
  add_number("--mean", recipe.data.mean.front());
  add_number("--deviation", recipe.data.deviation.front());
  add_number("--lr", recipe.optimizer.lr);
  add_number("--momentum", recipe.optimizer.options.number("momentum"));
  add_number("--weight-decay", recipe.optimizer.weight_decay);
  if (peer.fused) words.push_back("--fused");
  if (compile) words.push_back("--compile");
  return words;
}

RowAnswer answer_of_all(const std::vector<RowAnswer>& answers, int steps) {
  RowAnswer all;
  all.torch = answers.front().torch;
  all.losses.assign(static_cast<std::size_t>(steps), 0);
  for (const RowAnswer& answer : answers) {
    if (answer.losses.size() != all.losses.size()) {
      throw Failure("a rank has answered with " + std::to_string(answer.losses.size()) +
                    " losses of " + std::to_string(steps) + " steps");
    }
    if (!(answer.seconds > 0)) throw Failure("a rank says that its steps have taken no time");
    all.seconds = std::max(all.seconds, answer.seconds);
    for (std::size_t i = 0; i < all.losses.size(); ++i)
      all.losses[i] += answer.losses[i] / static_cast<double>(answers.size());
  }
  return all;
}

}  // namespace

DdpAllocator ddp_allocator(const std::string& given) {
  const std::string own = mapped_allocator();
  if (given == "glibc") {
    if (!own.empty())
      throw UsageError("--allocator glibc: this program has " + own + "; take --allocator auto");
    return kept_by_glibc();
  }
  if (given == "auto") {
    const std::string file = own.empty() ? find_library_file(kTcmalloc) : own;
    return file.empty() ? kept_by_glibc() : preloaded(file);
  }
  // What is not there the loader would leave out with no more than a warning.
  const bool named = given.find('/') == given.npos;
  const std::string file = named ? find_library_file(given) : given;
  if (!std::filesystem::is_regular_file(file)) {
    throw UsageError("--allocator: there is no library '" + given +
                     "'; it can be auto, glibc, or the path of a malloc library");
  }
  return preloaded(std::filesystem::absolute(file).string());
}

ConvoyRanks::ConvoyRanks(const DdpSetting& setting)
    : job_("convoy", command_of_ranks(setting), environment_of_side(setting), setting.ranks,
           setting.folder) {
  for (const RankPlace& place : job_.places()) {
    if (place.threads == setting.threads) continue;
    throw Failure("row 'convoy': rank " + std::to_string(place.rank) + " computes with " +
                  std::to_string(place.threads) + " threads and not with " +
                  std::to_string(setting.threads) + ", as those of PyTorch would");
  }
}

RowAnswer ConvoyRanks::run(int steps) { return answer_of_all(job_.run(steps), steps); }

PythonRanks::PythonRanks(const DdpSetting& setting, const DdpPeer& peer,
                         const std::vector<RankPlace>& places, bool compile)
    : row_(compile ? "ddp_compile" : "ddp"), patience_(compile ? kCompilePatience : kRowPatience) {
  RowEnvironment settings = environment_of_side(setting);
  // All ranks are on this host, whose name may lead nowhere.
  if (environment("GLOO_SOCKET_IFNAME").empty()) settings.emplace_back("GLOO_SOCKET_IFNAME", "lo");
  // What is compiled goes with the benchmark, which else would find what an earlier one has left.
  if (compile && environment("TORCHINDUCTOR_CACHE_DIR").empty())
    settings.emplace_back("TORCHINDUCTOR_CACHE_DIR", setting.folder + "/compiled");
  for (const RankPlace& place : places) {
    processes_.push_back(std::make_unique<RowProcess>(
        row_, command_of_peer(setting, peer, place.rank, compile), settings, place.cores));
  }
}

RowAnswer PythonRanks::run(int steps) {
  try {
    for (const auto& process : processes_) process->ask(steps);
    return answer_of_all(read_answers(), steps);
  } catch (const Failure&) {
    for (const auto& process : processes_) process->give_up();
    throw;
  }
}

// By rank, but read as they come: the first to say that it has failed says why, while others may
// still wait for it in a collective.
std::vector<RowAnswer> PythonRanks::read_answers() {
  const auto deadline = Clock::now() + patience_;
  std::vector<RowAnswer> answers(processes_.size());
  std::vector<std::size_t> left(processes_.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  while (!left.empty()) {
    std::vector<pollfd> outputs;
    for (const std::size_t rank : left) outputs.push_back({processes_[rank]->output(), POLLIN, 0});
    if (!wait_for_input(outputs, deadline)) {
      throw Failure("row '" + row_ + "' did not answer within " +
                    std::to_string(patience_.count()) + " minutes");
    }
    for (std::size_t i = left.size(); i-- > 0;) {
      if (outputs[i].revents == 0) continue;
      answers[left[i]] = processes_[left[i]]->answer(patience_);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return answers;
}

// All ends are waited for at once.
PythonRanks::~PythonRanks() {
  for (const auto& process : processes_) process->close();
}

}  // namespace convoy::cli
