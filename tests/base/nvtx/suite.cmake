# Ranges for profilers, seen by a profiler of our own.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_library(nvtx_recorder MODULE ${CMAKE_CURRENT_LIST_DIR}/recorder.cpp)
target_link_libraries(nvtx_recorder PRIVATE tessera_flags)
target_include_directories(nvtx_recorder PRIVATE ${PROJECT_SOURCE_DIR}/src)
if(TARGET example_03_saxpy)
  add_test(NAME nvtx.ranges COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/run.py $<TARGET_FILE:example_03_saxpy>
           $<TARGET_FILE:nvtx_recorder>)
  set_tests_properties(nvtx.ranges PROPERTIES LABELS tools)
endif()
# The same interface in NVIDIA's words.
find_path(TESSERA_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS /usr/local/cuda/include)
if(TESSERA_NVTX_INCLUDE)
  add_library(nvtx_agrees OBJECT ${CMAKE_CURRENT_LIST_DIR}/agrees.cpp)
  target_link_libraries(nvtx_agrees PRIVATE tessera_flags)
  target_include_directories(nvtx_agrees PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(nvtx_agrees SYSTEM PRIVATE ${TESSERA_NVTX_INCLUDE})
endif()
