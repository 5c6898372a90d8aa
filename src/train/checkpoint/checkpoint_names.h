// Names of checkpoints on disk, and their removal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

namespace convoy::train {

class CheckpointFolder;

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kReplacedSuffix = ".old";  // see Existing::replace

// "step-000000001200".
std::string checkpoint_name(std::int64_t step);

// Reads the step of "step-000000000012", and of "step-000000000012.old", which is being replaced.
// Gives nothing for a name that is no checkpoint's.
std::optional<std::int64_t> step_of(std::string name);

// The last part of a path, with or without a slash at its end.
std::string last_part(const std::string& path);

// Makes the first "superseded-<n>" that is free in the folder of checkpoints, and returns its path.
// Throws Failure.
std::string make_superseded_folder(const std::string& checkpoints);

// As CheckpointFolder::set_aside_after, with a copy of the file `with` beside them, if it is there:
// made before the first is moved, so that whoever is killed in between loses nothing of it. Throws
// Failure.
std::string set_aside_with(const CheckpointFolder& folder, std::int64_t step,
                           const std::string& with);

// Goes at once: what is removed half and then interrupted is no checkpoint any more. After an error
// it is whole, or space is lost until the next removal.
std::error_code remove_checkpoint(const std::string& path);

}  // namespace convoy::train
