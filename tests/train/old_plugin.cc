// What CONVOY_PLUGIN made with other headers of Convoy. Being registered would be the end of it.
#include <cstdlib>

extern "C" const char* convoy_plugin_interface() {
  return "Convoy's headers 0123456789abcdef, libstdc++ ABI 1, LibTorch 2.1.0";
}
// A function that Convoy has no longer.
extern "C" void convoy_has_this_no_longer();
extern "C" void convoy_plugin_register(void* /*registry*/) {
  convoy_has_this_no_longer();
  std::abort();
}
