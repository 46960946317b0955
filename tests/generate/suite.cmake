# Random programs of the kernel language, run in every way that must agree (docs/testing.md).
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
list(REMOVE_ITEM sources ${CMAKE_CURRENT_LIST_DIR}/main.cpp)
add_library(generated_programs STATIC ${sources})  # also for tests/assemble/pairs
target_link_libraries(generated_programs PUBLIC tessera_flags tessera::tessera)
target_include_directories(generated_programs PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
target_compile_options(generated_programs PRIVATE $<$<CONFIG:Dev>:-O1>)  # how many programs a minute tries
tessera_precompile(generated_programs <tessera/tessera.hpp>)
tessera_join(generated_programs)
add_executable(test_generate ${CMAKE_CURRENT_LIST_DIR}/main.cpp)
target_link_libraries(test_generate PRIVATE generated_programs)
add_test(NAME generate.found COMMAND test_generate --files ${CMAKE_CURRENT_LIST_DIR}/found)
set_tests_properties(generate.found PROPERTIES LABELS unit TIMEOUT 300)
# The number of programs with a claim that the checker does not prove: none of these.
add_test(NAME generate.claims COMMAND test_generate --seed 1 --rounds 600 --judge)
set_tests_properties(generate.claims PROPERTIES LABELS unit TIMEOUT 300 ENVIRONMENT TESSERA_VERIFY=1)
add_test(NAME generate.today COMMAND test_generate --seed today --minutes 0.1)
set_tests_properties(generate.today PROPERTIES LABELS generate TIMEOUT 900)
