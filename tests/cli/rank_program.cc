// One rank of the launcher tests. Plain MPI, so that nothing but the launcher is tested.
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int rank = 0;

volatile std::sig_atomic_t last_signal = 0;
void remember(int signal) { last_signal = signal; }

// All ranks exchange until somebody ends them.
void work() {
  while (true) {
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    usleep(1000);
  }
}

void print_place() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  std::string cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores += (cores.empty() ? "" : ",") + std::to_string(core);
  }
  std::printf("rank %d threads %s cores %s\n", rank, std::getenv("OMP_NUM_THREADS"), cores.c_str());
}

void print_lines(int count) {
  for (int i = 0; i < count; ++i) {
    std::printf("out %d %d %s\n", rank, i, "the quick brown fox jumps over the lazy dog");
    if (i % 10 == 0) std::fprintf(stderr, "err %d %d ------\n", rank, i);
  }
  std::fflush(stdout);
}

// Answers SIGTERM and SIGUSR1 in its own way.
void obey(int exit_status) {
  signal(SIGTERM, remember);
  signal(SIGUSR1, remember);
  MPI_Barrier(MPI_COMM_WORLD);
  std::printf("ready %d\n", rank);
  std::fflush(stdout);
  while (last_signal == 0) usleep(10000);
  std::printf("rank %d got %d\n", rank, static_cast<int>(last_signal));
  std::fflush(stdout);
  MPI_Finalize();
  std::exit(exit_status);
}

// Ends with this status and leaves a process that nothing but SIGKILL ends. It starts no others,
// and ignores signals since before it is there: whoever looks finds one process, the same at any
// moment. It writes on and on, to the rank's output or to nowhere. MPI would not let a rank go so.
[[noreturn]] void leave(int exit_status, bool silent) {
  for (const int signal_number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) signal(signal_number, SIG_IGN);
  if (fork() != 0) _exit(exit_status);
  if (silent) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
  }
  while (true) {
    // An error is none: who has read it may be gone.
    [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, "x\n", 2);
    usleep(50000);
  }
}

}  // namespace

// rank_program MODE [VALUE [RANK]]: RANK is the one that does it, the others work on.
// rank_program leave STATUS [silent]
int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const int value = argc > 2 ? std::atoi(argv[2]) : 0;
  const int actor = argc > 3 ? std::atoi(argv[3]) : 0;
  if (mode == "leave") leave(value, argc > 3);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (mode == "stubborn") {
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
  }
  if (mode == "place") print_place();
  if (mode == "lines") print_lines(value);
  if (mode == "obey") obey(value);
  if (mode == "children" && fork() == 0) {
    setsid();
    while (true) pause();
  }
  if (mode == "exit" || mode == "signal" || mode == "abort") {
    MPI_Barrier(MPI_COMM_WORLD);  // the others are past what MPI_Init() would say of such an end
    if (rank != actor) work();
    usleep(200000);
    if (mode == "exit") _exit(value);
    if (mode == "signal") raise(value);
    MPI_Abort(MPI_COMM_WORLD, value);
  }
  if (mode == "work" || mode == "stubborn" || mode == "children") {
    MPI_Barrier(MPI_COMM_WORLD);
    std::printf("ready %d\n", rank);
    std::fflush(stdout);
    work();
  }
  MPI_Finalize();
  return 0;
}
