# Without a toolkit that is new enough a build says what it leaves out: cmake -P toolkit_test.cmake
cmake_minimum_required(VERSION 3.25)
set(here "${CMAKE_CURRENT_LIST_DIR}")

function(expect toolkit option code text)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DCMAKE_MODULE_PATH=${here}/old_toolkit" "-DTOOLKIT=${toolkit}" "-DINCLUDE=/nothing" ${option}
            -P "${here}/../../cmake/cuda.cmake"
    OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE result)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  string(FIND "${said}" "${text}" at)
  if(NOT result EQUAL code OR (at EQUAL -1 AND NOT text STREQUAL "") OR (text STREQUAL "" AND NOT said STREQUAL ""))
    message(SEND_ERROR "toolkit '${toolkit}' ${option}: expected ${code} and '${text}', got ${result} and '${said}'")
  endif()
endfunction()

expect("" "" 0 "and their tests; no CUDA Toolkit 12.4 or newer was found")
expect(11.8 "" 0 "the CUDA Toolkit here is 11.8, and 12.4 or newer is needed")
expect(12.3.107 "" 0 "the CUDA Toolkit here is 12.3.107, and 12.4 or newer is needed")
expect(12.4 "" 0 "Left out: the library of sim capture and its tests; this CUDA Toolkit has no CUPTI")
expect(13.0 -DCORUN_WITH_CUDA=OFF 0 "CORUN_WITH_CUDA is off")
expect(12.0 -DCORUN_WITH_CUDA=ON 1 "no CUDA Toolkit 12.4 or newer is here")
