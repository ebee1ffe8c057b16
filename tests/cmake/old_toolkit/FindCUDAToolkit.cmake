# A toolkit of the version TOOLKIT, in the folder INCLUDE.
include(FindPackageHandleStandardArgs)
set(CUDAToolkit_VERSION "${TOOLKIT}")
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" version "${TOOLKIT}")
set(CUDAToolkit_VERSION_MAJOR "${CMAKE_MATCH_1}")
set(CUDAToolkit_VERSION_MINOR "${CMAKE_MATCH_2}")
set(CUDAToolkit_INCLUDE_DIRS "${INCLUDE}")
find_package_handle_standard_args(CUDAToolkit REQUIRED_VARS CUDAToolkit_VERSION VERSION_VAR CUDAToolkit_VERSION)
