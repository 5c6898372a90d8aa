#include <dlfcn.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "cli/doctor/rows.h"
#include "cli/version.h"
#include "train/compute/gpu.h"

namespace convoy::cli {
namespace {

std::string library_path() {
  Dl_info info{};
  const auto address = reinterpret_cast<void*>(static_cast<void (*)(int)>(&at::set_num_threads));
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return std::filesystem::path(info.dli_fname).lexically_normal().string();
}

// The part of LibTorch's own account that matters here.
std::string config_line(const std::string& word) {
  std::istringstream config(at::show_config());
  for (std::string line; std::getline(config, line);) {
    if (line.find(word) == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" -");
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

Row math_libraries() {
  const std::string mkl = at::hasMKL() ? config_line("Math Kernel Library") : "";
  const std::string onednn = config_line("MKL-DNN");
  std::string detail =
      mkl.empty() ? "no MKL" : mkl.substr(0, std::min(mkl.find("-Product"), mkl.find(" Product")));
  detail += onednn.empty() ? ", no oneDNN"
                           : ", oneDNN " + onednn.substr(onednn.find(" v") + 1,
                                                         onednn.find(" (") - onednn.find(" v") - 1);
  if (!onednn.empty()) return {"math libraries", RowStatus::ok, detail, ""};
  return {"math libraries", RowStatus::note, detail,
          "convolutions are much slower without oneDNN; use the PyPI or pytorch.org build"};
}

Row cuda() {
  if (const int gpus = train::gpus(); gpus > 0) {
    return {"CUDA", RowStatus::ok, std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs"), ""};
  }
  return {"CUDA", RowStatus::note, "no GPU is usable: training runs on the processor",
          train::gpu_problem()};
}

}  // namespace

DoctorRows torch_rows() {
  // First: once LibTorch is asked for its configuration it has the GPUs that it has then.
  const Row gpus = cuda();
  return {{"LibTorch", RowStatus::ok, torch_version() + " (" + library_path() + ")", ""},
          {"LibTorch kernels", RowStatus::ok, at::get_cpu_capability(), ""},
          {"LibTorch threads", RowStatus::ok,
           std::to_string(at::get_num_threads()) +
               " in this process; 'convoy run' gives each rank its share of the cores",
           ""},
          math_libraries(),
          gpus};
}

}  // namespace convoy::cli
