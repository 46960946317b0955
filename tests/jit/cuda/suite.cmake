# Kernels of the public language on a GPU that is not there: the fake driver and an assembler that is a script.
add_executable(test_jit_cuda ${CMAKE_CURRENT_LIST_DIR}/fake_gpu_test.cpp
               ${CMAKE_CURRENT_LIST_DIR}/rejection_test.cpp)
target_link_libraries(test_jit_cuda PRIVATE tessera_flags tessera::tessera fake_cuda_driver GTest::gmock GTest::gtest_main)
target_include_directories(test_jit_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
tessera_precompile_test(test_jit_cuda)
gtest_discover_tests(test_jit_cuda TEST_FILTER "FakeGpu*:Rejection*" PROPERTIES LABELS "unit" DISCOVERY_TIMEOUT 60)

# Checked mode is a program of its own: its driver runs what the passes make.
add_executable(test_jit_checked ${CMAKE_CURRENT_LIST_DIR}/checked_gpu_test.cpp)
target_link_libraries(test_jit_checked PRIVATE tessera_flags tessera::tessera fake_cuda_driver GTest::gmock GTest::gtest_main)
target_include_directories(test_jit_checked PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
tessera_precompile_test(test_jit_checked)
gtest_discover_tests(test_jit_checked TEST_FILTER "CheckedGpu*" PROPERTIES LABELS "unit" DISCOVERY_TIMEOUT 60)

# Starts are processes that a process without devices and threads makes: a program of its own.
add_executable(test_jit_start ${CMAKE_CURRENT_LIST_DIR}/start_test.cpp)
target_link_libraries(test_jit_start PRIVATE tessera_flags tessera::tessera fake_cuda_driver GTest::gmock GTest::gtest_main)
target_include_directories(test_jit_start PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
tessera_precompile_test(test_jit_start)
gtest_discover_tests(test_jit_start TEST_FILTER "WarmStart*" PROPERTIES LABELS "unit" DISCOVERY_TIMEOUT 60)
