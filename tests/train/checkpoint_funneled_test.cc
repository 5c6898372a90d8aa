// Checkpoints of ranks of which only one thread may call MPI (MPI_THREAD_FUNNELED), and which don't
// share the folder.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "convoy/comm/mpi.h"
#include "tests/base/scratch.h"
#include "tests/train/grid_state.h"

namespace {

std::atomic<int> calls_of_others = 0;  // of other threads than the one that initialized MPI

template <class F>
F next(const char* name) {
  if (::gettid() != ::getpid()) ++calls_of_others;
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// Every message of Convoy's goes through one of these.
extern "C" int PMPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
                          MPI_Comm comm, MPI_Request* request) {
  return next<decltype(&PMPI_Isend)>("PMPI_Isend")(data, count, type, to, tag, comm, request);
}
extern "C" int PMPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag,
                          MPI_Comm comm, MPI_Request* request) {
  return next<decltype(&PMPI_Irecv)>("PMPI_Irecv")(data, count, type, from, tag, comm, request);
}
extern "C" int PMPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  return next<decltype(&PMPI_Test)>("PMPI_Test")(request, done, status);
}

namespace convoy::train {
namespace {

using testing_data::Grid;
using testing_data::grid_manifest;
using testing_data::Truth;

// Gives this thread, and those that it starts, an empty file system there; why not, if it can't.
std::string mount_over(const std::string& folder) {
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", folder.c_str(), "tmpfs", 0, "size=256m") != 0) {
    return std::strerror(errno);
  }
  return "";
}

TEST(CheckpointFunneled, PartsGoThroughRank0OnTheThreadThatMayCallMpi) {
  comm::World world = comm::adopt(MPI_COMM_WORLD);
  const comm::Communicator& all = world.communicator();
  std::optional<test::Scratch> scratch;
  if (world.rank() == 0) scratch.emplace();
  const std::string folder = all.broadcast_text(scratch ? scratch->path() : "", 0);
  const std::string problem = all.broadcast_text(world.rank() == 1 ? mount_over(folder) : "", 1);
  if (!problem.empty()) GTEST_SKIP() << "needs a mount namespace of its own: " << problem;
  const Truth truth(1, 6000);  // 12 MB, and as much of the optimizer: several pieces
  const Grid grid{world.size(), 1};
  for (const bool asynchronous : {true, false}) {
    CheckpointWriter writer(all, CheckpointFolder(folder), {.asynchronous = asynchronous});
    writer.begin(grid_manifest(asynchronous ? 1 : 2, world.size()),
                 truth.state(grid, world.rank()));
    const WrittenCheckpoint written = *writer.finish();
    // Those that see the folder don't wait for more than they have to.
    EXPECT_EQ(written.asynchronous, asynchronous && world.rank() != 1);
    std::string manifest;
    if (world.rank() == 0) manifest = to_json(verify_checkpoint(written.path));
    manifest = all.broadcast_text(manifest, 0);
    const State state = read_checkpoint(all, written.path, manifest_from_json(manifest, "told"));
    truth.expect_in(state, grid, world.rank());
    EXPECT_EQ(std::filesystem::exists(written.path), world.rank() != 1);
  }
  EXPECT_EQ(calls_of_others, 0);
  all.barrier();
}

}  // namespace
}  // namespace convoy::train

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  torch::set_num_threads(1);
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
