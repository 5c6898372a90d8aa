// Signals that ask a training to stop.
#pragma once

namespace convoy::cli {

// From now on SIGTERM, SIGINT, SIGUSR1 and SIGHUP only set a flag; a second SIGINT ends the
// process. SIGINT stays ignored if it is, as in the background of a script, and SIGHUP, as with
// nohup. Nobody who reads what is printed is no reason to end: SIGPIPE is ignored. A SIGUSR1 that
// came before, and was blocked, comes now.
void catch_stop_signals();

// Until then, from now on, they end the process at once, with status 75 and these words (of a
// constant; null: none) on standard error: for what takes long and leaves nothing that would have
// to be saved. The rest is as above.
void end_at_stop_signals(const char* words);

// Ends the process at once, with status 75 and these words (null: none) on standard error. Any
// thread, and signal handlers.
[[noreturn]] void end_to_be_started_again(const char* words);

// Whether one has come. Any thread.
bool stop_signal_came();

}  // namespace convoy::cli
