# Finds LibTorch without asking for the CUDA toolkit, as the wheel's own TorchConfig would.
#
# Looked for, in this order: LIBTORCH_ROOT (variable or environment: a LibTorch folder, or
# site-packages/torch of a Python), CMAKE_PREFIX_PATH, the private folder of tools/setup.sh, of which
# that with CUDA (tools/setup.sh --cuda) comes first.
# Makes the target convoy::libtorch. Needs LibTorch 2.1 or newer with the C++11 ABI.
# LibTorch_CUDA says whether it has CUDA: programs are linked with its libraries for CPUs either way,
# and load libtorch_cuda.so when a GPU is asked for (src/train/compute/gpu.h).

set(_hints ${LIBTORCH_ROOT} $ENV{LIBTORCH_ROOT})
foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
  list(APPEND _hints ${prefix} ${prefix}/torch ${prefix}/../.. ${prefix}/../../..)
endforeach()
if(DEFINED ENV{CONVOY_DEPS})
  set(_private $ENV{CONVOY_DEPS})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_private $ENV{XDG_CACHE_HOME}/convoy)
else()
  set(_private $ENV{HOME}/.cache/convoy)
endif()
list(APPEND _hints ${_private}/torch-2.11.0-cuda/torch ${_private}/torch-2.11.0/torch)

set(_named ${LIBTORCH_ROOT} $ENV{LIBTORCH_ROOT})
if(_named)
  list(GET _named 0 _named)
  if(NOT EXISTS ${_named}/include/torch/csrc/api/include/torch/torch.h)
    message(FATAL_ERROR "LIBTORCH_ROOT is ${_named}, but there is no "
      "include/torch/csrc/api/include/torch/torch.h in it. Name a LibTorch folder, or the torch "
      "folder of a Python: python3 -c 'import torch; print(torch.__path__[0])'")
  endif()
endif()

find_path(LibTorch_ROOT_DIR NAMES include/torch/csrc/api/include/torch/torch.h
          PATHS ${_hints} NO_DEFAULT_PATH NO_CACHE)
if(LibTorch_ROOT_DIR)
  find_library(LibTorch_CPU NAMES torch_cpu PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH NO_CACHE)
  find_library(LibTorch_C10 NAMES c10 PATHS ${LibTorch_ROOT_DIR}/lib NO_DEFAULT_PATH NO_CACHE)
  foreach(_file IN ITEMS torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS ${LibTorch_ROOT_DIR}/include/${_file})
      file(STRINGS ${LibTorch_ROOT_DIR}/include/${_file} _lines
           REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
      string(REGEX REPLACE "[^;]*(MAJOR|MINOR|PATCH) " "" _lines "${_lines}")
      string(REPLACE ";" "." LibTorch_VERSION "${_lines}")
      if(LibTorch_VERSION)
        break()
      endif()
    endif()
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_ROOT_DIR LibTorch_CPU LibTorch_C10
  VERSION_VAR LibTorch_VERSION
  FAIL_MESSAGE "LibTorch was not found. Run tools/setup.sh (it fetches one into a private folder), or name yours: -DLIBTORCH_ROOT=/path/to/libtorch, or the torch folder of a Python")
if(LibTorch_VERSION VERSION_LESS 2.1)
  message(FATAL_ERROR "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR} is too old: Convoy needs 2.1 or newer")
endif()

# A library with the old ABI has no std::__cxx11 in its symbols; linking against it would fail with
# pages of undefined references.
file(STRINGS ${LibTorch_C10} _cxx11 REGEX "__cxx11" LIMIT_COUNT 1)
if(NOT _cxx11)
  message(FATAL_ERROR "LibTorch in ${LibTorch_ROOT_DIR} was built with the old C++ ABI "
    "(_GLIBCXX_USE_CXX11_ABI=0). Take the 'cxx11 ABI' download, or a PyPI wheel of torch 2.6 or newer.")
endif()

set(LibTorch_CUDA OFF)
set(_with "without CUDA: device = \"cuda\" needs another one, see tools/setup.sh --cuda")
if(EXISTS ${LibTorch_ROOT_DIR}/lib/libtorch_cuda.so)
  set(LibTorch_CUDA ON)
  set(_with "with CUDA")
endif()
if(NOT LibTorch_FIND_QUIETLY)
  message(STATUS "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR}, ${_with}")
endif()

if(NOT TARGET convoy::libtorch)
  add_library(convoy::libtorch INTERFACE IMPORTED)
  target_include_directories(convoy::libtorch SYSTEM INTERFACE
    ${LibTorch_ROOT_DIR}/include ${LibTorch_ROOT_DIR}/include/torch/csrc/api/include)
  target_link_libraries(convoy::libtorch INTERFACE ${LibTorch_CPU} ${LibTorch_C10})
  # LibTorch is built with GCC, from whose names of some templates clang departed in its version 18.
  target_compile_options(convoy::libtorch INTERFACE
    "$<$<AND:$<CXX_COMPILER_ID:Clang>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,18>>:-fclang-abi-compat=17>")
  # The wheel's torch_cpu needs two CUDA runtime libraries, which it finds by its own run path.
  target_link_options(convoy::libtorch INTERFACE "LINKER:--allow-shlib-undefined"
    "LINKER:-rpath-link,${LibTorch_ROOT_DIR}/../nvidia/cu13/lib")
  # DT_RPATH, not RUNPATH, would break a user's LD_LIBRARY_PATH; RUNPATH is what CMake writes.
  target_link_options(convoy::libtorch INTERFACE "LINKER:-rpath,${LibTorch_ROOT_DIR}/lib")
endif()
