# Finds cpp-httplib: the target httplib::httplib, with TLS. Debian splits it into a header and a library; elsewhere the
# header is all of it.
find_path(HTTPLIB_INCLUDE_DIR httplib.h)
find_library(HTTPLIB_LIBRARY cpp-httplib)
if(HTTPLIB_INCLUDE_DIR)
  file(STRINGS ${HTTPLIB_INCLUDE_DIR}/httplib.h _version REGEX "define CPPHTTPLIB_VERSION \"")
  string(REGEX REPLACE ".*\"([0-9.]+).*" "\\1" httplib_VERSION "${_version}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(httplib REQUIRED_VARS HTTPLIB_INCLUDE_DIR VERSION_VAR httplib_VERSION)
mark_as_advanced(HTTPLIB_INCLUDE_DIR HTTPLIB_LIBRARY)
if(httplib_FOUND AND NOT TARGET httplib::httplib)
  add_library(httplib::httplib INTERFACE IMPORTED)
  set_target_properties(httplib::httplib PROPERTIES
                        INTERFACE_INCLUDE_DIRECTORIES ${HTTPLIB_INCLUDE_DIR}
                        INTERFACE_COMPILE_DEFINITIONS CPPHTTPLIB_OPENSSL_SUPPORT)
  if(HTTPLIB_LIBRARY)
    set_property(TARGET httplib::httplib PROPERTY INTERFACE_LINK_LIBRARIES ${HTTPLIB_LIBRARY})
  endif()
endif()
