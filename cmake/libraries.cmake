# A library of the distribution, or where it has none its sources at a tag. -DFETCHCONTENT_SOURCE_DIR_<NAME>=FOLDER takes them from there,
# -DFETCHCONTENT_TRY_FIND_PACKAGE_MODE=NEVER never the distribution's.
# corun_library(<package> <repository of GitHub> <tag>)
include(FetchContent)
macro(corun_library package repository tag)
  FetchContent_Declare(${package} GIT_REPOSITORY "https://github.com/${repository}" GIT_TAG ${tag} GIT_SHALLOW ON SYSTEM FIND_PACKAGE_ARGS CONFIG)
  FetchContent_MakeAvailable(${package})
  if(NOT ${package}_FOUND)
    message(STATUS "${package}: no package of CMake is here; built from its sources")
  endif()
endmacro()
set(FMT_INSTALL ON)  # who links the installed libraries needs these too
set(JSON_Install ON)
set(INSTALL_GTEST OFF)
