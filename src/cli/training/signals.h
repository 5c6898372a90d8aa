// Signals that ask a training to stop.
#pragma once

namespace convoy::cli {

// From now on SIGTERM, SIGINT and SIGUSR1 only set a flag; a second SIGINT ends the process. SIGINT
// stays ignored if it is.
void catch_stop_signals();

// Whether one has come.
bool stop_signal_came();

}  // namespace convoy::cli
