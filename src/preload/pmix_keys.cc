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

// As pmix_common.h has them since its version 2.
struct Value {
  std::uint16_t type = 0;
  alignas(8) union {
    bool flag;
    int integer;
    void* memory;  // of strings, and of byte objects, which begin with it
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
constexpr std::uint16_t kBool = 1, kString = 3, kInt = 6, kByteObject = 27;
constexpr std::uint8_t kGlobal = 3;
constexpr int kError = -1, kTimedOut = -24, kNotFound = -46;
// Of one question to a rank's host, at first and in the end, each twice as long as the one before.
constexpr int kFirstSeconds = 1, kLastSeconds = 16;

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
  if (status == kSuccess) {
    if (value->type == kString || value->type == kByteObject) std::free(value->data.memory);
    std::free(value);
  }
  return status;
}

Info directive(const char* name, std::uint16_t type) {
  Info info;
  std::strncpy(info.key.data(), name, info.key.size() - 1);
  info.value.type = type;
  return info;
}

Info at_once() {
  Info info = directive("pmix.immediate", kBool);
  info.value.data.flag = true;
  return info;
}

Info within(int seconds) {
  Info info = directive("pmix.timeout", kInt);
  info.value.data.integer = seconds;
  return info;
}

// kSuccess, kNotFound, or kTimedOut.
int ask(int rank, const std::string& key, const Info& how) {
  const int status = get(rank, key, how);
  if (status == kSuccess || status == kNotFound || status == kTimedOut) return status;
  throw Failure("PMIx can't say whether rank " + std::to_string(rank) +
                " has libconvoy_mpi.so: error " + std::to_string(status));
}

}  // namespace

bool put(const std::string& key) {
  Value yes;
  yes.type = kBool;
  yes.data.flag = true;
  return put_for_mpi(kGlobal, key.c_str(), &yes) == kSuccess;
}

int put_for_mpi(std::uint8_t scope, const char* key, void* value) {
  const auto pmix_put = function<int (*)(std::uint8_t, const char*, void*)>("PMIx_Put");
  return pmix_put == nullptr ? kError : pmix_put(scope, key, value);
}

int commit() {
  const auto pmix_commit = function<int (*)()>("PMIx_Commit");
  return pmix_commit == nullptr ? kError : pmix_commit();
}

bool has(int rank, const std::string& key, const std::vector<std::string>& others, bool patient) {
  if (ask(rank, key, at_once()) == kSuccess) return true;
  for (int seconds = kFirstSeconds; seconds <= kLastSeconds; seconds *= 2) {
    for (const std::string& other : others) {
      if (ask(rank, other, at_once()) != kSuccess) continue;
      const int status = ask(rank, key, at_once());  // it may have arrived in between
      if (status != kTimedOut) return status == kSuccess;
    }
    if (!patient) return false;
    // Its host has been asked, and has had what the rank has put since MPI was initialized.
    const int status = ask(rank, key, within(seconds));
    if (status != kTimedOut) return status == kSuccess;
    // Keys of a rank on another host may come only when somebody waits for them.
    for (const std::string& other : others) {
      if (ask(rank, other, within(1)) == kSuccess) break;
    }
  }
  throw Failure("PMIx does not say whether rank " + std::to_string(rank) +
                " has libconvoy_mpi.so; without an answer the ranks can't agree on who uses it");
}

}  // namespace convoy::preload::pmix
