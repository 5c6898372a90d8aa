// What is declared of libvips is what its headers declare. That it compiles is the test.
#include <gtest/gtest.h>

#include "data/pack/vips_functions.h"
#include "tests/base/leave_out.h"

#ifdef CONVOY_VIPS_HEADERS
#include <vips/vips.h>

#include <type_traits>

// That of functions which want a null pointer at their end is no part of their type.
#pragma GCC diagnostic ignored "-Wignored-attributes"

namespace convoy::data {
namespace {

// What a value is for who passes it: enumerations are passed as numbers.
template <typename Type>
struct Passed {
  using type = Type;
};
template <typename Type>
requires std::is_enum_v<Type>
struct Passed<Type> {
  static_assert(sizeof(Type) == sizeof(int));
  using type = int;
};
template <typename Result, typename... Arguments>
struct Passed<Result (*)(Arguments...)> {
  using type = typename Passed<Result>::type (*)(typename Passed<Arguments>::type...);
};
template <typename Result, typename... Arguments>
struct Passed<Result (*)(Arguments..., ...)> {
  using type = typename Passed<Result>::type (*)(typename Passed<Arguments>::type..., ...);
};

#define SAME(member, function)                                                              \
  static_assert(                                                                            \
      std::is_same_v<decltype(VipsFunctions::member), Passed<decltype(&::function)>::type>, \
      #function)

SAME(init, vips_init);
SAME(version_string, vips_version_string);
SAME(concurrency_set, vips_concurrency_set);
SAME(cache_set_max, vips_cache_set_max);
SAME(error_buffer_copy, vips_error_buffer_copy);
SAME(image_new_from_memory, vips_image_new_from_memory);
SAME(image_write_to_memory, vips_image_write_to_memory);
SAME(image_get_width, vips_image_get_width);
SAME(image_get_height, vips_image_get_height);
SAME(image_get_bands, vips_image_get_bands);
SAME(image_get_format, vips_image_get_format);
SAME(webpload_buffer, vips_webpload_buffer);
SAME(extract_band, vips_extract_band);
SAME(resize, vips_resize);
SAME(autorot, vips_autorot);
SAME(jpegsave_buffer, vips_jpegsave_buffer);
SAME(object_unref, g_object_unref);
SAME(free, g_free);
SAME(log_set_handler, g_log_set_handler);

static_assert(vips_values::kFormatUchar == VIPS_FORMAT_UCHAR);
static_assert(vips_values::kFailOnWarning == VIPS_FAIL_ON_WARNING);
static_assert(vips_values::kSubsampleOn == VIPS_FOREIGN_SUBSAMPLE_ON);
static_assert(vips_values::kSubsampleOff == VIPS_FOREIGN_SUBSAMPLE_OFF);
static_assert(vips_values::kAllLevels == static_cast<int>(G_LOG_LEVEL_MASK));

TEST(Vips, IsDeclaredAsInItsHeaders) {
  int functions = 0;
  VipsFunctions table{};
  each_vips_function(table, [&functions](const char*, auto&) { ++functions; });
  EXPECT_EQ(functions * sizeof(void*), sizeof table) << "one is declared and not looked up";
}

}  // namespace
}  // namespace convoy::data

#else

TEST(Vips, IsDeclaredAsInItsHeaders) {
  LEAVE_OUT("install libvips-dev, or name a folder of headers with -DCONVOY_VIPS_HEADERS");
}

#endif
