// What a run tells of where and how it was started. Torch-free.
#pragma once

#include <string>

namespace convoy::train {

// This process's command line, quoted so that a shell takes it. Empty where the system doesn't say.
std::string command_line();
// The command that started the run that this process writes of: CONVOY_COMMAND where another
// process has started this one for it (`convoy train` an evaluator), else this process's.
std::string command_of_run();
// A word as a shell takes it: quoted where it has to be.
std::string shell_word(const std::string& word);

// "2024-05-01 12:00:00 UTC"
std::string utc_now();

// "AMD EPYC 7B13"; empty where the system doesn't say.
std::string processor_name();

// "NVIDIA H100 80GB HBM3": the first GPU that this process sees, which it computes on; empty where
// there is no driver, or no GPU.
std::string gpu_name(const std::string& driver_file = "libcuda.so.1");

}  // namespace convoy::train
