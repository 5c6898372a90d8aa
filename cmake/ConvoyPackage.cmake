# cmake --install: headers, libraries, the program and a package for find_package(Convoy). The whole
# folder may be moved afterwards.
include(CMakePackageConfigHelpers)

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Convoy)
get_property(_targets GLOBAL PROPERTY CONVOY_LAYERS)

# The outside packages that a program linking a layer needs; read off the targets, so that no second
# list can fall behind.
function(_convoy_packages_of target result)
  set(_packages "")
  set(_seen "")
  set(_queue ${target})
  while(_queue)
    list(POP_FRONT _queue _item)
    # A static library's private dependencies are linked by the program.
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" _item "${_item}")
    if(_item STREQUAL "convoy::libtorch")
      list(APPEND _packages LibTorch)
      continue()
    endif()
    string(REGEX REPLACE "^convoy::" "convoy_" _item "${_item}")
    if(_item IN_LIST _seen)
      continue()
    elseif(_item IN_LIST _targets)
      list(APPEND _seen ${_item})
      get_target_property(_next ${_item} INTERFACE_LINK_LIBRARIES)
      if(_next)
        list(APPEND _queue ${_next})
      endif()
    elseif(_item MATCHES "^([A-Za-z0-9_]+)::")
      list(APPEND _packages ${CMAKE_MATCH_1})
    endif()
  endwhile()
  list(REMOVE_DUPLICATES _packages)
  set(${result} "${_packages}" PARENT_SCOPE)
endfunction()

set(CONVOY_REQUIREMENTS "")
set(_components "")
foreach(_target IN LISTS _targets)
  string(REGEX REPLACE "^convoy_" "" _layer ${_target})
  _convoy_packages_of(${_target} _packages)
  list(APPEND _components ${_layer})
  string(APPEND CONVOY_REQUIREMENTS "set(_convoy_${_layer}_packages ${_packages})\n")
  if(EXISTS ${PROJECT_SOURCE_DIR}/include/convoy/${_layer})  # mpi is preloaded and has none
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/convoy/${_layer}
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/convoy FILES_MATCHING PATTERN "*.h")
  endif()
endforeach()
set(CONVOY_COMPONENTS "${_components}")

if(CONVOY_TORCH)
  install(FILES ${PROJECT_SOURCE_DIR}/include/convoy/convoy.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/convoy)
  install(FILES ${CMAKE_BINARY_DIR}/generated/include/convoy/train/plugin_tag.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/convoy/train)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake DESTINATION ${_package_dir})
endif()

# Finders of what has no package file of its own.
install(FILES ${PROJECT_SOURCE_DIR}/cmake/Findxxhash.cmake ${PROJECT_SOURCE_DIR}/cmake/FindgRPCpp.cmake
        DESTINATION ${_package_dir})

# The program finds its libraries beside it, wherever the folder is moved.
if(TARGET convoy)
  file(RELATIVE_PATH _bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(convoy PROPERTIES INSTALL_RPATH "$ORIGIN/${_bin_to_lib}")
  install(TARGETS convoy RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(BUILD_SHARED_LIBS)  # opened by the program alone, so that it is no component
    set_target_properties(convoy_commands PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS convoy_commands LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
  endif()
endif()

install(EXPORT ConvoyTargets NAMESPACE convoy:: DESTINATION ${_package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ConvoyConfig.cmake.in
  ${CMAKE_BINARY_DIR}/package/ConvoyConfig.cmake INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/ConvoyConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/ConvoyConfig.cmake
              ${CMAKE_BINARY_DIR}/package/ConvoyConfigVersion.cmake DESTINATION ${_package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/convoy)
