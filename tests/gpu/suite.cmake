# Programs and tests for a machine with a GPU are a folder of their own.
if(NOT TESSERA_BUILD_GPU_TESTS)
  return()
endif()
add_subdirectory(${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_BINARY_DIR}/gpu)
