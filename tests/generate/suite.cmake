# Random programs of the kernel language, run in every way that must agree (docs/testing.md).
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_executable(test_generate ${sources})
target_link_libraries(test_generate PRIVATE tessera_flags tessera::tessera)
target_include_directories(test_generate PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
target_compile_options(test_generate PRIVATE $<$<CONFIG:Dev>:-O1>)  # how many programs a minute tries
tessera_precompile(test_generate <tessera/tessera.hpp>)
add_test(NAME generate.found COMMAND test_generate --files ${CMAKE_CURRENT_LIST_DIR}/found)
set_tests_properties(generate.found PROPERTIES LABELS unit TIMEOUT 300)
# The number of programs with a claim that the checker does not prove: none of these.
add_test(NAME generate.claims COMMAND test_generate --seed 1 --count 600 --judge)
set_tests_properties(generate.claims PROPERTIES LABELS unit TIMEOUT 300 ENVIRONMENT TESSERA_VERIFY=1)
add_test(NAME generate.today COMMAND test_generate --seed today --minutes 0.1)
set_tests_properties(generate.today PROPERTIES LABELS generate TIMEOUT 900)
