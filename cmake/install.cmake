# `cmake --install`: the command, and the libraries for `find_package(corun)`, which gives
#   corun::traces    files in, metrics and timelines out
#   corun::policies  every policy and the loop that asks it
#   corun::sim       the simulated GPU: what most programs link
#   corun::hw        the same policies on an NVIDIA GPU
# Headers are included as in this repository: "sim/run/run.h".
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(TARGETS sim)
foreach(name IN ITEMS corun_capture corun_steer)
  if(TARGET ${name})  # where the command looks for it, whatever CMAKE_INSTALL_LIBDIR is (sim/command/beside.cpp)
    install(TARGETS ${name} LIBRARY DESTINATION lib)
  endif()
endforeach()

# For "$schema" of the files that the command writes
file(GLOB schemas CONFIGURE_DEPENDS traces/schema/*.json)
install(FILES ${schemas} DESTINATION "${CMAKE_INSTALL_DATADIR}/corun/schema")

# What the command says of itself, where shells and man look for it: printed by the command as it is installed.
set(shell_files "${PROJECT_BINARY_DIR}/shell")
install(CODE "
  file(MAKE_DIRECTORY \"${shell_files}\")
  foreach(words IN ITEMS completion,bash completion,zsh completion,fish man)
    string(REPLACE \",\" \";\" arguments \${words})
    execute_process(COMMAND \"$<TARGET_FILE:sim>\" \${arguments} OUTPUT_FILE \"${shell_files}/\${words}\"
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()")
install(FILES "${shell_files}/completion,bash" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME sim)
install(FILES "${shell_files}/completion,zsh" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" RENAME _sim)
install(FILES "${shell_files}/completion,fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" RENAME sim.fish)
install(FILES "${shell_files}/man" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" RENAME sim.1)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/corun")
foreach(name IN ITEMS traces policies policy_objects hw sim)
  string(REPLACE policy_objects policies folder ${name})
  set_target_properties(corun_${name} PROPERTIES EXPORT_NAME ${name})
  set(headers "")
  if(NOT name STREQUAL policies)  # an interface of policy_objects
    # Public is what is not of the entry points, what compares with measurements, what measures or goes into other programs.
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${folder}/*.h)
    list(FILTER headers EXCLUDE REGEX "/(hw/capture|hw/shim|hw/measure|sim/command|sim/papers|sim/validate)/|/traces/timeline/perfetto_packets")
  endif()
  target_sources(corun_${name} INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${headers})
  install(TARGETS corun_${name} EXPORT corun ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
          FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/corun")
endforeach()
install(EXPORT corun NAMESPACE corun:: FILE corunTargets.cmake DESTINATION "${package_folder}")

configure_package_config_file(cmake/corunConfig.cmake.in "${PROJECT_BINARY_DIR}/corunConfig.cmake"
                              INSTALL_DESTINATION "${package_folder}")
# Before 1.0 a minor version may change what a program sees.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/corunConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/corunConfig.cmake" "${PROJECT_BINARY_DIR}/corunConfigVersion.cmake"
        DESTINATION "${package_folder}")
