// The functions of libvips.so.42 that are used, as its headers declare them: the library is opened
// at run time, and the build needs no headers. tests/data/vips_abi_test.cc compares the two where
// there are headers. The number in the library's name changes when its interface does.
//
// Optional arguments follow as name and value, and a null pointer ends them.
#pragma once

#include <cstddef>

struct _VipsImage;  // libvips' own

namespace convoy::data {

using VipsImage = ::_VipsImage;

constexpr const char* kVipsLibrary = "libvips.so.42";

// These are values of enumerations, with the names that libvips and GLib have for them.
namespace vips_values {
constexpr int kFormatUchar = 0;                     // VIPS_FORMAT_UCHAR
constexpr int kFailOnWarning = 3;                   // VIPS_FAIL_ON_WARNING
constexpr int kSubsampleOn = 1, kSubsampleOff = 2;  // VIPS_FOREIGN_SUBSAMPLE_ON, _OFF
constexpr int kAllLevels = ~3;                      // G_LOG_LEVEL_MASK
}  // namespace vips_values

struct VipsFunctions {
  int (*init)(const char*);
  const char* (*version_string)();
  void (*concurrency_set)(int);
  void (*cache_set_max)(int);
  char* (*error_buffer_copy)();
  VipsImage* (*image_new_from_memory)(const void*, std::size_t, int, int, int, int);
  void* (*image_write_to_memory)(VipsImage*, std::size_t*);
  int (*image_get_width)(const VipsImage*);
  int (*image_get_height)(const VipsImage*);
  int (*image_get_bands)(const VipsImage*);
  int (*image_get_format)(const VipsImage*);
  int (*webpload_buffer)(void*, std::size_t, VipsImage**, ...);
  int (*extract_band)(VipsImage*, VipsImage**, int, ...);
  int (*resize)(VipsImage*, VipsImage**, double, ...);
  int (*autorot)(VipsImage*, VipsImage**, ...);
  int (*jpegsave_buffer)(VipsImage*, void**, std::size_t*, ...);
  // These are functions of GLib, which libvips brings.
  void (*object_unref)(void*);
  void (*free)(void*);
  unsigned (*log_set_handler)(const char*, int, void (*)(const char*, int, const char*, void*),
                              void*);
};

// Calls visit(name, function) for each.
template <typename Visit>
void each_vips_function(VipsFunctions& f, const Visit& visit) {
  visit("vips_init", f.init);
  visit("vips_version_string", f.version_string);
  visit("vips_concurrency_set", f.concurrency_set);
  visit("vips_cache_set_max", f.cache_set_max);
  visit("vips_error_buffer_copy", f.error_buffer_copy);
  visit("vips_image_new_from_memory", f.image_new_from_memory);
  visit("vips_image_write_to_memory", f.image_write_to_memory);
  visit("vips_image_get_width", f.image_get_width);
  visit("vips_image_get_height", f.image_get_height);
  visit("vips_image_get_bands", f.image_get_bands);
  visit("vips_image_get_format", f.image_get_format);
  visit("vips_webpload_buffer", f.webpload_buffer);
  visit("vips_extract_band", f.extract_band);
  visit("vips_resize", f.resize);
  visit("vips_autorot", f.autorot);
  visit("vips_jpegsave_buffer", f.jpegsave_buffer);
  visit("g_object_unref", f.object_unref);
  visit("g_free", f.free);
  visit("g_log_set_handler", f.log_set_handler);
}

}  // namespace convoy::data
