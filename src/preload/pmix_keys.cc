#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "preload/job_keys.h"

namespace convoy::preload::pmix {
namespace {

// As pmix_common.h has them since its version 2. Only booleans and integers are kept in a value
// here, which is larger in PMIx.
struct Value {
  std::uint16_t type = 0;
  alignas(8) union {
    bool flag;
    int integer;
    std::array<std::byte, 128> room;
  } data{};
};
struct Info {
  std::array<char, 512> key{};
  std::uint32_t flags = 0;
  Value value;
};
struct Process {
  std::array<char, 256> job{};
  std::uint32_t rank = 0;
};
constexpr std::uint16_t kBool = 1, kInt = 6;
constexpr std::uint8_t kGlobal = 3;
constexpr int kSuccess = 0, kError = -1, kTimedOut = -24, kNotFound = -46;
constexpr int kPatienceSeconds = 1;

// MPI loads PMIx for itself alone, so that its name has to be given.
template <class F>
F function(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    void* const library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) found = dlsym(library, name);
  }
  return reinterpret_cast<F>(found);
}

int get(int rank, const std::string& key, const Info& how) {
  const auto pmix_get =
      function<int (*)(const Process*, const char*, const Info*, std::size_t, Value**)>("PMIx_Get");
  if (pmix_get == nullptr) return kError;
  Process process;
  const std::string job = environment("PMIX_NAMESPACE");
  job.copy(process.job.data(), process.job.size() - 1);
  process.rank = static_cast<std::uint32_t>(rank);
  Value* value = nullptr;
  const int status = pmix_get(&process, key.c_str(), &how, 1, &value);
  if (status == kSuccess) std::free(value);
  return status;
}

Info directive(const char* name, std::uint16_t type) {
  Info info;
  std::strncpy(info.key.data(), name, info.key.size() - 1);
  info.value.type = type;
  return info;
}

}  // namespace

void put(const std::string& key) {
  const auto pmix_put = function<int (*)(std::uint8_t, const char*, Value*)>("PMIx_Put");
  Value yes;
  yes.type = kBool;
  yes.data.flag = true;
  if (pmix_put != nullptr) pmix_put(kGlobal, key.c_str(), &yes);
}

int commit() {
  const auto pmix_commit = function<int (*)()>("PMIx_Commit");
  return pmix_commit == nullptr ? kError : pmix_commit();
}

bool has(int rank, const std::string& key, bool patient) {
  Info at_once = directive("pmix.immediate", kBool);
  at_once.value.data.flag = true;
  int status = get(rank, key, at_once);
  if (status == kNotFound && patient) {
    Info wait = directive("pmix.timeout", kInt);
    wait.value.data.integer = kPatienceSeconds;
    status = get(rank, key, wait);
  }
  if (status == kSuccess) return true;
  if (status == kNotFound || status == kTimedOut) return false;
  throw Failure("PMIx can't say whether rank " + std::to_string(rank) +
                " has libconvoy_mpi.so: error " + std::to_string(status));
}

}  // namespace convoy::preload::pmix
