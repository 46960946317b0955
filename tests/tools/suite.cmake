# The tessera command, from outside: compiling ahead of time, the cache. Needs examples; skipped without an assembler.
if(NOT TARGET tessera_command OR NOT TARGET example_03_saxpy)
  return()
endif()
set(no_assembler "was not found: run scripts/get-tileiras.sh")
add_test(NAME tools.build COMMAND tessera_command build -o ${CMAKE_CURRENT_BINARY_DIR}/saxpy.tessera --gpu sm_80,sm_90 --
         $<TARGET_FILE:example_03_saxpy>)
add_test(NAME tools.build_list COMMAND tessera_command build --list ${CMAKE_CURRENT_BINARY_DIR}/saxpy.tessera)
set_tests_properties(tools.build PROPERTIES LABELS "tools+tileiras" FIXTURES_SETUP saxpy_bundle
                     SKIP_REGULAR_EXPRESSION "${no_assembler}")
set_tests_properties(tools.build_list PROPERTIES LABELS "tools+tileiras" FIXTURES_REQUIRED saxpy_bundle
                     PASS_REGULAR_EXPRESSION "saxpy +sm_90.*saxpy +sm_80|saxpy +sm_80.*saxpy +sm_90"
                     SKIP_REGULAR_EXPRESSION "cannot open the kernel bundle")
add_test(NAME tools.cache COMMAND tessera_command cache size)
set_tests_properties(tools.cache PROPERTIES LABELS tools PASS_REGULAR_EXPRESSION "kernels, .* MiB of|switched off")
add_test(NAME tools.explain COMMAND tessera_command explain --kernel saxpy -- $<TARGET_FILE:example_03_saxpy>)
set_tests_properties(tools.explain PROPERTIES LABELS "tools+tileiras"
                     PASS_REGULAR_EXPRESSION "kernel saxpy for sm_90.*conditions.*accesses.*03_saxpy.cpp.*load.*hints: warps")
find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_executable(own_bench ${CMAKE_CURRENT_LIST_DIR}/own_bench.cpp)
target_link_libraries(own_bench PRIVATE tessera_flags tessera::tessera tessera_measure)
add_test(NAME tools.bench COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/bench.py $<TARGET_FILE:tessera_command>
         $<TARGET_FILE:own_bench>)
set_tests_properties(tools.bench PROPERTIES LABELS tools)
# What scripts/gpu-check.sh makes of the figures of several runs.
add_test(NAME tools.report COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bench/gpu/report.py --selftest)
set_tests_properties(tools.report PROPERTIES LABELS tools)
