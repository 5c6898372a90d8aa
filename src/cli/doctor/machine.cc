#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "cli/doctor/rows.h"
#include "cli/launch/mpirun.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

// Under this, the shared-memory windows of a few ranks with large models may not fit.
constexpr std::uint64_t kLittleSharedMemory = std::uint64_t{1} << 30;

// The value after "name :" in one of /proc's tables.
std::string proc_value(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

Row processor() {
  const std::string model = proc_value("/proc/cpuinfo", "model name");
  return {"processor", RowStatus::ok, model.empty() ? "model not shown by the kernel" : model, ""};
}

Row cores() {
  const std::size_t usable = usable_cores().size();
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  std::string detail = std::to_string(usable) + " usable of " + std::to_string(online);
  const std::string quota = first_line("/sys/fs/cgroup/cpu.max");
  std::istringstream words(quota);
  std::string limit;
  double period = 0;
  if (words >> limit >> period && limit != "max" && period > 0) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), ", cgroup quota %.2f CPUs",
                  std::atof(limit.c_str()) / period);
    return {"cores", RowStatus::note, detail + text.data(),
            "with a quota, ranks are not bound to cores; give the container whole cores "
            "(--cpuset-cpus) for steady times"};
  }
  return {"cores", RowStatus::ok, detail + ", no cgroup quota", ""};
}

Row vector_units() {
  std::istringstream flags(proc_value("/proc/cpuinfo", "flags"));
  std::string found;
  bool avx2 = false;
  for (std::string flag; flags >> flag;) {
    for (const char* wanted :
         {"avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"}) {
      if (flag != wanted) continue;
      found += (found.empty() ? "" : " ") + flag;
      avx2 = avx2 || flag == "avx2";
    }
  }
#if defined(__aarch64__)
  return {"vector units", RowStatus::ok, "NEON", ""};
#endif
  if (avx2) return {"vector units", RowStatus::ok, found, ""};
  return {"vector units", RowStatus::note, found.empty() ? "no AVX2" : found,
          "LibTorch is several times slower without AVX2"};
}

Row memory() {
  const auto kib = [](const std::string& name) {
    return std::strtoull(proc_value("/proc/meminfo", name).c_str(), nullptr, 10) * 1024;
  };
  std::string detail =
      format_bytes(kib("MemTotal")) + ", " + format_bytes(kib("MemAvailable")) + " available";
  const std::string limit = first_line("/sys/fs/cgroup/memory.max");
  if (!limit.empty() && limit != "max") {
    detail += ", cgroup limit " + format_bytes(std::strtoull(limit.c_str(), nullptr, 10));
  }
  return {"memory", RowStatus::ok, detail, ""};
}

Row shared_memory() {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) {
    return {"/dev/shm", RowStatus::missing, "not mounted", "mount -t tmpfs tmpfs /dev/shm"};
  }
  const std::uint64_t size = static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize;
  const std::string detail = format_bytes(size);
  if (size >= kLittleSharedMemory) return {"/dev/shm", RowStatus::ok, detail, ""};
  return {"/dev/shm", RowStatus::note, detail + ", which is little for several ranks",
          "start the container with --shm-size=8g, or remount it larger"};
}

// Whether one rank may read another's memory directly, tried with two processes side by side.
bool single_copy_works() {
  static volatile int value = 0;
  std::array<int, 2> ready{};
  if (pipe(ready.data()) != 0) return false;
  const pid_t target = fork();
  if (target == 0) {
    value = 4711;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // as MPI libraries do
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  const pid_t reader = target < 0 ? -1 : fork();
  if (reader == 0) {
    char byte = 0;
    int copy = 0;
    iovec local{&copy, sizeof copy};
    iovec remote{const_cast<int*>(&value), sizeof value};
    const bool read_it = read(ready[0], &byte, 1) == 1 &&
                         process_vm_readv(target, &local, 1, &remote, 1, 0) == sizeof copy &&
                         copy == 4711;
    _exit(read_it ? 0 : 1);
  }
  int status = 1;
  if (reader > 0) waitpid(reader, &status, 0);
  if (target > 0) {
    kill(target, SIGKILL);
    waitpid(target, nullptr, 0);
  }
  close(ready[0]);
  close(ready[1]);
  return status == 0;
}

Row single_copy() {
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  const std::string yama = scope.empty() ? "no Yama" : "ptrace_scope " + scope;
  if (single_copy_works())
    return {"single copy", RowStatus::ok, "ranks may read each other's memory (CMA; " + yama + ")",
            ""};
  return {"single copy", RowStatus::note,
          "ranks may not read each other's memory (" + yama + "): messages are copied twice",
          "sysctl kernel.yama.ptrace_scope=1, or start the container with --cap-add=SYS_PTRACE"};
}

// Runs a program in a network namespace of its own. Its exit status, or -1 if there is no such
// right.
int in_new_network(const std::vector<std::string>& command) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0) _exit(255);
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    std::vector<char*> argv;
    for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(254);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

std::string find_system_program(const std::string& name) {
  for (const std::string& path : {name, "/usr/sbin/" + name, "/sbin/" + name}) {
    const std::string found = find_program(path);
    if (!found.empty()) return found;
  }
  return "";
}

Row emulated_cluster() {
  const std::string ip = find_system_program("ip");
  const std::string tc = find_system_program("tc");
  const char* name = "emulated cluster";
  if (ip.empty() || tc.empty()) {
    return {name, RowStatus::missing, "the programs ip and tc are not here",
            "install the package iproute2"};
  }
  const int status = in_new_network({tc, "qdisc", "add", "dev", "lo", "root", "tbf", "rate",
                                     "1gbit", "burst", "128k", "latency", "50ms"});
  if (status < 0) {
    return {name, RowStatus::missing, "no right to make network namespaces",
            "run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN"};
  }
  if (status != 0) {
    return {name, RowStatus::missing, "the kernel has no token bucket filter (tbf)",
            "load the kernel module sch_tbf"};
  }
  return {name, RowStatus::ok, "network namespaces with rate limits work", ""};
}

Row user() {
  if (geteuid() != 0) return {"user", RowStatus::ok, "not root", ""};
  return {"user", RowStatus::ok, "root; 'convoy run' tells mpirun that this is wanted", ""};
}

Row slurm() {
  const std::string srun = find_program("srun");
  if (!srun.empty()) return {"Slurm", RowStatus::ok, srun, ""};
  return {"Slurm", RowStatus::note, "no srun", "only needed on clusters that Slurm manages"};
}

}  // namespace

DoctorRows machine_rows() {
  return {processor(),   cores(), vector_units(),     memory(), shared_memory(),
          single_copy(), user(),  emulated_cluster(), slurm()};
}

}  // namespace convoy::cli
