# How every Convoy library, program and test is compiled.

if(CONVOY_SANITIZE STREQUAL "address")
  # What is left out of "undefined" takes a quarter of the time to compile: null pointers end in a report as well.
  set(_convoy_sanitize -fsanitize=address,undefined -fno-sanitize=null,vptr,object-size
      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
elseif(CONVOY_SANITIZE STREQUAL "thread")
  set(_convoy_sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(CONVOY_SANITIZE)
  message(FATAL_ERROR "CONVOY_SANITIZE is '${CONVOY_SANITIZE}'; it can be empty, address or thread")
endif()
if(CONVOY_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "CONVOY_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++")
  endif()
  list(APPEND _convoy_sanitize -fsanitize=fuzzer-no-link)
endif()
if(_convoy_sanitize)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Compilers of C and Fortran programs bring a run-time library of their own, so those programs do without.
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${_convoy_sanitize}>")
    if(CONVOY_SANITIZE STREQUAL "address")
      # For libconvoy_mpi.so, which has to bring it to such programs.
      execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.asan-${CMAKE_HOST_SYSTEM_PROCESSOR}.so
                      OUTPUT_VARIABLE _convoy_runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
      get_filename_component(_convoy_runtime ${_convoy_runtime} DIRECTORY)
      list(APPEND _convoy_sanitize -shared-libasan LINKER:-rpath,${_convoy_runtime})
    endif()
    add_link_options("$<$<LINK_LANGUAGE:CXX>:${_convoy_sanitize}>")
  else()
    add_compile_options(${_convoy_sanitize})
    add_link_options(${_convoy_sanitize})
  endif()
endif()

# Units of vector loops (Highway) are compiled once per instruction set. Of those of x86, the least and the most
# common remain, so that there is something to choose from.
if(CONVOY_QUICK_BUILD)
  add_compile_definitions("HWY_DISABLED_TARGETS=(HWY_SSE4|HWY_AVX3|HWY_AVX3_DL)")
endif()

# convoy_vector_loops(<flags> <sources>...)
# Each operation on a vector is an inlined function, so they are optimized in every build. The scopes of all those
# functions' values would take the address sanitizer four times as long to compile.
function(convoy_vector_loops flags)
  if(CONVOY_SANITIZE STREQUAL "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND flags -fno-sanitize-address-use-after-scope)
  endif()
  # No precompiled header fits other flags.
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${flags}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# mold links the Torch-sized programs in a second instead of ten; any other linker works as well.
find_program(CONVOY_MOLD mold)
if(CONVOY_MOLD AND (CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12))
  add_link_options(-fuse-ld=mold)
endif()
# Libraries are to fit programs compiled with GCC, as LibTorch does; see FindLibTorch.cmake.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 18)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fclang-abi-compat=17>")
endif()

# A time inside clang's precompiled headers would make ccache take every unit for a new one.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
find_program(CONVOY_CCACHE ccache)
if(CONVOY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # pch_defines,time_macros: what ccache wants before it caches units that use a precompiled header. BASEDIR: what one
  # clone has compiled another one need not.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CONVOY_CCACHE})
endif()

function(convoy_warnings target)
  # -Wrestrict of GCC 12 warns about its own std::string (GCC bug 105651).
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-unused-parameter
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>)
endfunction()

# convoy_little_optimized()
# For a folder, and those in it, without loops that take time. A precompiled header of clang's fits other levels, too,
# but for -O0.
macro(convoy_little_optimized)
  add_compile_options($<$<AND:$<COMPILE_LANG_AND_ID:CXX,Clang>,$<CONFIG:Release>>:-O1>)
endmacro()

# convoy_unoptimized()
# For a folder of tests, and those in it: what takes time there is in the libraries. clang makes such a unit that
# includes LibTorch in a third of the time. Precompiled headers are others then (convoy_precompiled).
macro(convoy_unoptimized)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_BUILD_TYPE STREQUAL "Release")
    set(CONVOY_UNOPTIMIZED ON)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-O0>)
  endif()
endmacro()

# GCC takes three times as long to optimize what these sanitizers add: worth it for code that tests run for long,
# not for tests, nor for the many templates of JSON.
function(convoy_unoptimized_if_sanitized target)
  if(CONVOY_SANITIZE STREQUAL "address")
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# convoy_precompiled(<target> standard|json|cli|test|torch)
# Headers that take longer to compile than most units that include them. The first target that asks for a set builds it,
# the others reuse it. With clang, which instantiates the templates of such a header once and not in every unit, this
# halves the time of the whole build. Units must compile without: those of GCC do, but for the two largest sets.
set(_convoy_pch_standard <algorithm> <array> <atomic> <chrono> <condition_variable> <cstring> <filesystem> <fstream>
    <functional> <map> <memory> <mutex> <optional> <random> <span> <sstream> <string> <string_view> <thread>
    <unordered_map> <vector>)
set(_convoy_pch_json ${_convoy_pch_standard} <nlohmann/json.hpp>)
set(_convoy_pch_cli ${_convoy_pch_json} <CLI/CLI.hpp>)
set(_convoy_pch_test ${_convoy_pch_standard} <numeric> <gtest/gtest.h>)
set(_convoy_pch_torch <torch/torch.h>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # which reads of a precompiled header only what a unit needs
  list(APPEND _convoy_pch_torch <nlohmann/json.hpp> <CLI/CLI.hpp>)
endif()
set(_convoy_pch_json_library nlohmann_json::nlohmann_json)
set(_convoy_pch_cli_library nlohmann_json::nlohmann_json CLI11::CLI11)
set(_convoy_pch_test_library GTest::gtest)
set(_convoy_pch_torch_library convoy::libtorch Threads::Threads nlohmann_json::nlohmann_json CLI11::CLI11)
function(convoy_precompiled target headers)
  if(headers STREQUAL "none")
    return()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CONVOY_QUICK_BUILD AND NOT headers MATCHES "^(test|torch)$")
    return()
  endif()
  set(_carrier convoy_${headers}_pch)
  if(CONVOY_UNOPTIMIZED)
    set(_carrier convoy_unoptimized_${headers}_pch)
  endif()
  if(NOT TARGET ${_carrier})
    # Written only once: a file that is newer would have everything compiled again at each configuration.
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/${_carrier}.cc CONTENT "// Carries a precompiled header.\n")
    add_library(${_carrier} STATIC ${CMAKE_BINARY_DIR}/${_carrier}.cc)
    target_link_libraries(${_carrier} PRIVATE ${_convoy_pch_${headers}_library})
    target_precompile_headers(${_carrier} PRIVATE ${_convoy_pch_${headers}})
    convoy_warnings(${_carrier})
    if(headers MATCHES "^(json|test)$")
      convoy_unoptimized_if_sanitized(${_carrier})
    endif()
  endif()
  # A precompiled header is used only by units compiled the same way: programs with -fPIC, too, not -fPIE.
  get_target_property(_type ${target} TYPE)
  if(_type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${_carrier})
endfunction()

# convoy_library(<layer> SOURCES ... [DEPENDS public targets] [PRIVATE private targets]
#                [PRECOMPILED headers, see convoy_precompiled, or none; standard])
# makes libconvoy_<layer>, known as convoy::<layer> here and after installation.
function(convoy_library layer)
  cmake_parse_arguments(ARG "" "PRECOMPILED" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(convoy_${layer} ${ARG_SOURCES})
  add_library(convoy::${layer} ALIAS convoy_${layer})
  set_target_properties(convoy_${layer} PROPERTIES EXPORT_NAME ${layer} VERSION ${PROJECT_VERSION}
                        SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH "$ORIGIN")
  target_compile_features(convoy_${layer} PUBLIC cxx_std_20)
  target_include_directories(convoy_${layer}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(convoy_${layer} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})
  convoy_warnings(convoy_${layer})
  if(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED standard)
  endif()
  convoy_precompiled(convoy_${layer} ${ARG_PRECOMPILED})
  set_property(GLOBAL APPEND PROPERTY CONVOY_LAYERS convoy_${layer})
  if(NOT CONVOY_SANITIZE)  # whose run-time library comes with the program
    target_link_options(convoy_${layer} PRIVATE LINKER:-z,defs)
  endif()
  install(TARGETS convoy_${layer} EXPORT ConvoyTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

# convoy_test_folder([END_TO_END tests])
# First in each folder of tests: all of them get the label layer.<folder>, and those that show by a real job that the
# layer works on the ones under it the label e2e.<folder>, by which tools/changed_tests.py chooses. Tests of folders in
# it get layer.<folder>, too, by convoy_test.
function(convoy_test_folder)
  cmake_parse_arguments(ARG "" "" "END_TO_END" ${ARGN})
  _convoy_test_layer(_layer)
  set(CONVOY_END_TO_END_${_layer} "${ARG_END_TO_END}" CACHE INTERNAL "")
  _convoy_label_at_the_end()
endfunction()
# The folder in tests/ that this one is or lies in.
function(_convoy_test_layer result)
  file(RELATIVE_PATH _path ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "/.*" "" _path "${_path}")
  set(${result} ${_path} PARENT_SCOPE)
endfunction()
# Once in a folder: its tests can be labeled only when all of them are there.
function(_convoy_label_at_the_end)
  get_property(_asked DIRECTORY PROPERTY CONVOY_LABELED)
  if(NOT _asked)
    set_property(DIRECTORY PROPERTY CONVOY_LABELED ON)
    cmake_language(DEFER CALL _convoy_label_tests)
  endif()
endfunction()
function(_convoy_label_tests)
  _convoy_test_layer(_layer)
  get_property(_tests DIRECTORY PROPERTY TESTS)
  foreach(_test IN LISTS _tests)
    set_property(TEST ${_test} APPEND PROPERTY LABELS layer.${_layer})
    if(_test IN_LIST CONVOY_END_TO_END_${_layer})
      set_property(TEST ${_test} APPEND PROPERTY LABELS e2e.${_layer})
    endif()
  endforeach()
endfunction()

# The cases that still read the clock, as lines "program Suite.Case why"; see tools/gate.py.
set(CONVOY_CLOCK_CASES ${PROJECT_SOURCE_DIR}/tests/clock_cases.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CONVOY_CLOCK_CASES})
file(STRINGS ${CONVOY_CLOCK_CASES} _convoy_clock_lines REGEX "^[a-z]")

# convoy_test(<name> SOURCES ... DEPENDS ... [TORCH] [RANKS 1 3] [TIMEOUT s] [LABELS ...]
#             [ALL] [ALL_RANKS 2 4] [ALL_CASES Suite.Case ... | GATE_CASES Suite.Case ...])
# A GoogleTest program. With RANKS it is run once for each number of ranks, through mpirun. What only `./test.sh --all`
# runs has the label `all`: the whole program with ALL, these numbers of ranks, or these cases (all but GATE_CASES), which
# are then a test <name>.all of their own. Cases of tests/clock_cases.txt are tests of their own, too, with the label
# `clock`: <name>.clock.<Suite.Case>.
function(convoy_test name)
  cmake_parse_arguments(ARG "TORCH;ALL" "TIMEOUT" "SOURCES;DEPENDS;RANKS;ALL_RANKS;ALL_CASES;GATE_CASES;LABELS;ENVIRONMENT" ${ARGN})
  # Limits are there for what hangs. They are far above tests/base/patience.h, by which tests end with a message.
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  if(CONVOY_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  convoy_warnings(${name})
  if(ARG_TORCH)
    convoy_precompiled(${name} torch)
  else()
    convoy_precompiled(${name} test)
  endif()
  convoy_unoptimized_if_sanitized(${name})
  _convoy_label_at_the_end()
  # tests.comm: the tests of that folder, and of those in it.
  _convoy_test_layer(_layer)
  if(NOT TARGET tests.${_layer})
    add_custom_target(tests.${_layer})
  endif()
  add_dependencies(tests.${_layer} ${name})
  # tests.threads: those with this label, for the thread sanitizer.
  if("threads" IN_LIST ARG_LABELS)
    if(NOT TARGET tests.threads)
      add_custom_target(tests.threads)
    endif()
    add_dependencies(tests.threads ${name})
  endif()
  set(_environment "OMP_NUM_THREADS=1;CONVOY_SOURCE_DIR=${PROJECT_SOURCE_DIR};CONVOY_BINARY_DIR=${CMAKE_BINARY_DIR};${CONVOY_MPI_ENVIRONMENT};${ARG_ENVIRONMENT}")
  set(_clock)
  foreach(_line IN LISTS _convoy_clock_lines)
    if(_line MATCHES "^${name} ([^ ]+) ")
      list(APPEND _clock ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN ARG_ALL_CASES ":" _all_cases)
  list(JOIN _clock ":" _clock_cases)
  list(JOIN ARG_GATE_CASES ":" _gate_cases)
  set(_filter)
  set(_rest)
  if(_gate_cases)
    set(_filter --gtest_filter=${_gate_cases}-${_clock_cases})
    set(_rest --gtest_filter=-${_gate_cases}:${_clock_cases})
  elseif(_all_cases)
    set(_filter --gtest_filter=-${_all_cases}:${_clock_cases})
    set(_rest --gtest_filter=${_all_cases})
  elseif(_clock_cases)
    set(_filter --gtest_filter=-${_clock_cases})
  endif()
  if(NOT ARG_RANKS)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  if(NOT ARG_RANKS AND NOT ARG_ALL_RANKS)
    _convoy_test_entry(${name} 1 "${_filter}")
    if(_rest)
      _convoy_test_entry(${name}.all 1 "${_rest}" all)
    endif()
    foreach(_case IN LISTS _clock)
      _convoy_test_entry(${name}.clock.${_case} 1 --gtest_filter=${_case} clock)
    endforeach()
  else()
    foreach(ranks IN LISTS ARG_RANKS)
      _convoy_test_entry(${name}.${ranks} ${ranks} "${_filter}")
      if(_rest)
        _convoy_test_entry(${name}.${ranks}.all ${ranks} "${_rest}" all)
      endif()
    endforeach()
    foreach(ranks IN LISTS ARG_ALL_RANKS)
      _convoy_test_entry(${name}.${ranks} ${ranks} "" all)
    endforeach()
  endif()
endfunction()

# For convoy_test: one entry of ctest, which takes that function's variables.
function(_convoy_test_entry entry ranks filter)
  set(_command $<TARGET_FILE:${name}> ${filter})
  if(ARG_RANKS OR ARG_ALL_RANKS)
    list(PREPEND _command ${CONVOY_MPIRUN} -n ${ranks})
  endif()
  add_test(NAME ${entry} COMMAND ${_command})
  set(_labels ${ARG_LABELS} ${ARGN})
  if(ARG_ALL)
    list(APPEND _labels all)
  endif()
  set_tests_properties(${entry} PROPERTIES PROCESSORS ${ranks} TIMEOUT ${ARG_TIMEOUT} LABELS "${_labels}"
                       ENVIRONMENT "${_environment}")
endfunction()
