#include "cli/doctor/rows.h"
#include "convoy/base/error.h"
#include "convoy/data/pack.h"

namespace convoy::cli {

DoctorRows data_rows() {
  try {
    return {{"libvips", RowStatus::ok, data::image_library_version() + ", for convoy pack", ""}};
  } catch (const UsageError&) {
    return {{"libvips", RowStatus::missing, "convoy pack can't resize images, only keep them",
             "Debian: apt-get install libvips-tools"}};
  }
}

}  // namespace convoy::cli
