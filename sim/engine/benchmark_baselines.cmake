# Queues of other discrete-event simulators, for event_queue_bench. Neither is needed to build.
# corun_link_benchmark_baselines(<target>)
#
# CORUN_HAVE_NS3: the schedulers of ns-3. CORUN_HAVE_SIMGRID: the heaps of SimGrid, from its public headers.
include_guard(GLOBAL)

# Not find_package(ns3): its targets name the Python and GTK packages of all of ns-3, and fail without them.
find_path(CORUN_NS3_INCLUDE_DIR ns3/calendar-scheduler.h)
find_library(CORUN_NS3_CORE_LIBRARY
             NAMES ns3-core ns3.46-core ns3.45-core ns3.44-core ns3.43-core ns3.42-core ns3.41-core
                   ns3.40-core ns3.39-core ns3.38-core ns3.37-core ns3.36-core ns3.35-core)
find_path(CORUN_SIMGRID_INCLUDE_DIR simgrid/kernel/Timer.hpp)
find_library(CORUN_SIMGRID_LIBRARY simgrid)
mark_as_advanced(CORUN_NS3_INCLUDE_DIR CORUN_NS3_CORE_LIBRARY CORUN_SIMGRID_INCLUDE_DIR CORUN_SIMGRID_LIBRARY)

function(corun_link_benchmark_baselines target)
  if(CORUN_NS3_INCLUDE_DIR AND CORUN_NS3_CORE_LIBRARY)
    target_compile_definitions(${target} PRIVATE CORUN_HAVE_NS3)
    target_include_directories(${target} SYSTEM PRIVATE "${CORUN_NS3_INCLUDE_DIR}")
    target_link_libraries(${target} PRIVATE "${CORUN_NS3_CORE_LIBRARY}")
  endif()
  if(CORUN_SIMGRID_INCLUDE_DIR AND CORUN_SIMGRID_LIBRARY)
    target_compile_definitions(${target} PRIVATE CORUN_HAVE_SIMGRID)
    target_include_directories(${target} SYSTEM PRIVATE "${CORUN_SIMGRID_INCLUDE_DIR}")
    target_link_libraries(${target} PRIVATE "${CORUN_SIMGRID_LIBRARY}")
  endif()
endfunction()
