# A toolkit of the version TOOLKIT, in the folder INCLUDE.
include(FindPackageHandleStandardArgs)
set(CUDAToolkit_VERSION "${TOOLKIT}")
set(CUDAToolkit_INCLUDE_DIRS "${INCLUDE}")
find_package_handle_standard_args(CUDAToolkit REQUIRED_VARS CUDAToolkit_VERSION VERSION_VAR CUDAToolkit_VERSION)
