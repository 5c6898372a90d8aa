// The two kinds of error that Convoy reports.
#pragma once

#include <stdexcept>
#include <string>

namespace convoy {

// This is the caller's mistake: a bad argument, recipe or file, or a call that the contract
// forbids. The message is one line that says what is wrong, where, and what would be right.
// Programs exit with 2.
class UsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// This is a failure of the world: a peer died or left, a deadline passed, a disk is full. The
// message names the rank, host and operation. Programs exit with 1.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// Gives the message without the stack that LibTorch appends to its own.
std::string message_of(const std::exception& error);

// Gives the exit status for an exception: 2 for UsageError, 1 for everything else.
int exit_status(const std::exception& error);

}  // namespace convoy
