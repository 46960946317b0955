# Programs and tests for a machine with a GPU are a folder of their own.
add_subdirectory(${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_BINARY_DIR}/gpu)
