# Pairs of operations through NVIDIA's assembler, each for one GPU by turns (docs/testing.md). Needs no GPU.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_executable(test_pairs ${sources})
target_link_libraries(test_pairs PRIVATE generated_programs)
add_test(NAME assemble.pairs COMMAND test_pairs --first today --count 100 --seconds 40)
set_tests_properties(assemble.pairs PROPERTIES LABELS "assemble+tileiras" SKIP_RETURN_CODE 77 TIMEOUT 600)
