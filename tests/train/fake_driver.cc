// A driver with one GPU, as libcuda.so.1 has it. FAKE_DRIVER=none: it has none.
#include <cstdlib>
#include <cstring>

extern "C" {

int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }

int cuDeviceGet(int* device, int ordinal) {
  constexpr int kInvalidDevice = 101;
  if (ordinal != 0 || std::getenv("FAKE_DRIVER") != nullptr) return kInvalidDevice;
  *device = 7;
  return 0;
}

int cuDeviceGetName(char* name, int size, int device) {
  if (device != 7) return 1;
  std::strncpy(name, "Fake GPU 80GB", static_cast<std::size_t>(size));
  return 0;
}
}
