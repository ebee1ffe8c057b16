# What a build leaves out and why, told together where configuring ends.
function(corun_left_out text)
  if(CMAKE_SCRIPT_MODE_FILE)
    message(STATUS "Left out: ${text}")
  else()
    cmake_language(EVAL CODE "cmake_language(DEFER DIRECTORY [[${PROJECT_SOURCE_DIR}]] CALL message STATUS [[Left out: ${text}]])")
  endif()
endfunction()
