// Keeps the run-time folder of `convoy job` from staying behind.
#pragma once

#include <string>

namespace convoy::cli {

// Makes the folder (only its owner may enter it) unless it is to be there already, and writes to
// standard output "ok\n", or in one line why it can't. Then waits for the end of standard input,
// which comes when the job has ended, however it did, and for all supervisors to let go of their
// locks on the folder; then removes it with all that is in it. Ignores the signals by which jobs
// are ended. Returns an exit status.
int keep_folder(const std::string& path, bool make);

}  // namespace convoy::cli
