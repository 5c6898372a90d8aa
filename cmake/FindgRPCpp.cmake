# Finds gRPC's C++ library: the target gRPCpp::gRPCpp. Only what byte streams need of it: neither protobuf nor the
# generator of stubs, which gRPC's own package file asks for.
find_path(GRPCPP_INCLUDE_DIR grpcpp/generic/generic_stub.h)
find_library(GRPCPP_LIBRARY grpc++)
find_library(GRPC_LIBRARY grpc)
find_library(GPR_LIBRARY gpr)
find_library(GRPCPP_SYNCHRONIZATION absl_synchronization)  # the headers have a lock of it, where gRPC is built so
if(GRPCPP_INCLUDE_DIR AND EXISTS ${GRPCPP_INCLUDE_DIR}/grpcpp/version_info.h)
  file(STRINGS ${GRPCPP_INCLUDE_DIR}/grpcpp/version_info.h _version REGEX "define GRPC_CPP_VERSION_STRING")
  string(REGEX REPLACE ".*\"([0-9.]+).*" "\\1" gRPCpp_VERSION "${_version}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(gRPCpp REQUIRED_VARS GRPCPP_LIBRARY GRPC_LIBRARY GPR_LIBRARY GRPCPP_INCLUDE_DIR
                                  VERSION_VAR gRPCpp_VERSION)
mark_as_advanced(GRPCPP_INCLUDE_DIR GRPCPP_LIBRARY GRPC_LIBRARY GPR_LIBRARY GRPCPP_SYNCHRONIZATION)
if(gRPCpp_FOUND AND NOT TARGET gRPCpp::gRPCpp)
  add_library(gRPCpp::gRPCpp UNKNOWN IMPORTED)
  set_target_properties(gRPCpp::gRPCpp PROPERTIES IMPORTED_LOCATION ${GRPCPP_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${GRPCPP_INCLUDE_DIR}
                        INTERFACE_LINK_LIBRARIES "${GRPC_LIBRARY};${GPR_LIBRARY}")
  if(GRPCPP_SYNCHRONIZATION)
    set_property(TARGET gRPCpp::gRPCpp APPEND PROPERTY INTERFACE_LINK_LIBRARIES ${GRPCPP_SYNCHRONIZATION})
  endif()
endif()
