// An error on one rank is everybody's.
#pragma once

#include <exception>

#include "convoy/data/peers.h"

namespace convoy::data {

// Collective. Where any rank gives an error, every rank throws that of the first that does: as the
// same kind, UsageError or Failure, with the same message.
void agree(Peers& peers, const std::exception_ptr& error);

}  // namespace convoy::data
