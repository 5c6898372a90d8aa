# A header with a hash of all public headers, by which a plugin is known to fit (include/convoy/train/plugin.h).
#
#   cmake -D HEADERS=include -D OUTPUT=build/generated/include/convoy/train/plugin_tag.h -P cmake/PluginTag.cmake
#
# Comments and white space don't count: a plugin built before one was changed still fits. The file is written only if the
# hash is another one, so that nothing is compiled anew without need.
cmake_minimum_required(VERSION 3.25)
file(REAL_PATH ${HEADERS} HEADERS)
file(GLOB_RECURSE _headers RELATIVE ${HEADERS} ${HEADERS}/*.h)
if(NOT _headers)
  message(FATAL_ERROR "there are no headers in ${HEADERS}")
endif()
list(SORT _headers)
set(_text "")
foreach(_header IN LISTS _headers)
  file(READ ${HEADERS}/${_header} _one)
  string(REGEX REPLACE "//[^\n]*" "" _one "${_one}")
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" _one "${_one}")
  string(REGEX REPLACE "[ \t\r\n]+" "" _one "${_one}")
  string(SHA256 _one "${_one}")
  string(APPEND _text "${_header} ${_one}\n")
endforeach()
string(SHA256 _hash "${_text}")
string(SUBSTRING "${_hash}" 0 16 _hash)
set(_now "// Made by cmake/PluginTag.cmake: a hash of Convoy's public headers, without comments and white space.
#pragma once
#define CONVOY_PUBLIC_HEADERS \"${_hash}\"
")
set(_before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} _before)
endif()
if(NOT _before STREQUAL _now)
  file(WRITE ${OUTPUT} "${_now}")
endif()
