# The files that a launch goes through on its way to code, in order, as docs/jit.md lists them. The jit and the launching
# part of the host are compiled once more, so that each function reports that it is entered.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR TESSERA_SANITIZE OR NOT Python3_FOUND)
  return()  # clang counts functions that it inlines
endif()
find_program(tessera_addr2line addr2line)
if(NOT tessera_addr2line)
  return()
endif()
file(GLOB_RECURSE path_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/jit/*.cpp)
file(GLOB path_host_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/host/*.cpp)
add_executable(launch_path ${CMAKE_CURRENT_LIST_DIR}/main.cpp ${path_sources} ${path_host_sources})
target_link_libraries(launch_path PRIVATE tessera_flags tessera::tessera fake_cuda_driver GTest::gmock)
target_include_directories(launch_path PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(launch_path PRIVATE TESSERA_VERSION="${PROJECT_VERSION}")
target_compile_options(launch_path PRIVATE -O0 -g1 -finstrument-functions
                       -finstrument-functions-exclude-file-list=/usr/,include/tessera/base,include/tessera/runtime,tests/)
tessera_join(launch_path BATCH 24)
add_test(NAME jit.launch_path COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/path.py $<TARGET_FILE:launch_path>)
set_tests_properties(jit.launch_path PROPERTIES LABELS unit)
