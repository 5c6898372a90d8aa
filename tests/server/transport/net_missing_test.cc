// Stands for the tests of the parameter server's network where it could not be built.
#include "tests/base/leave_out.h"

TEST(Net, IsLeftOut) { LEAVE_OUT("there is no gRPC or OpenSSL: tools/setup.sh installs them"); }
