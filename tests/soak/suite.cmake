# Random operations in flight, compared with a sequential replay (docs/testing.md): some seconds on the CPU, and by
# scripts/gpu-check.sh ten minutes on a GPU.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_executable(soak ${sources})
target_link_libraries(soak PRIVATE tessera_flags tessera::tessera)
target_include_directories(soak PRIVATE ${PROJECT_SOURCE_DIR}/tests)
tessera_join(soak)
if(TESSERA_BUILD_TESTS)
  add_test(NAME soak.cpu COMMAND soak --seconds 4 --seed today --device cpu)
  set_tests_properties(soak.cpu PROPERTIES LABELS "unit+concurrency" TIMEOUT 600)
  add_dependencies(concurrency_tests soak)
endif()
