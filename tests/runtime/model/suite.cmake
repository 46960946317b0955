# The model check of the runtime: docs/internals/model-check.md. A program of its own, because it has options.
set(model ${CMAKE_CURRENT_SOURCE_DIR}/runtime/model)
file(GLOB model_sources CONFIGURE_DEPENDS ${model}/*.cpp)
add_executable(test_runtime_model ${model_sources} ${fake_driver_sources})
target_link_libraries(test_runtime_model PRIVATE tessera_flags tessera_runtime GTest::gtest)
target_include_directories(test_runtime_model PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
# A search is all computation: optimised also where the other tests are not.
target_compile_options(test_runtime_model PRIVATE $<$<CONFIG:Dev>:-O1>)
tessera_join(test_runtime_model THIS_FILE)
gtest_discover_tests(test_runtime_model PROPERTIES LABELS "unit+model" TIMEOUT 300 DISCOVERY_TIMEOUT 60)
