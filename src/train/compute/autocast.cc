#include "convoy/train/autocast.h"

#include <ATen/autocast_mode.h>

namespace convoy::train {

Autocast::Autocast(bool on, c10::DeviceType device) : on_(on), device_(device) {
  if (!on_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  former_type_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::increment_nesting();
  at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  at::autocast::set_autocast_enabled(device_, true);
}

Autocast::~Autocast() {
  if (!on_) return;
  // The cache holds converted weights, which the next update makes outdated.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(device_, former_type_);
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

}  // namespace convoy::train
