# Header-only, ships no CMake package. Defines Random123::random123.
find_path(Random123_INCLUDE_DIR Random123/philox.h)
mark_as_advanced(Random123_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Random123 REQUIRED_VARS Random123_INCLUDE_DIR)

if(Random123_FOUND AND NOT TARGET Random123::random123)
  add_library(Random123::random123 INTERFACE IMPORTED)
  target_include_directories(Random123::random123 INTERFACE "${Random123_INCLUDE_DIR}")
endif()
