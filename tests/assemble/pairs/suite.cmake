# Pairs of operations through NVIDIA's assembler, each for one GPU by turns (docs/testing.md). Needs no GPU.
add_executable(test_pairs ${CMAKE_CURRENT_LIST_DIR}/main.cpp)
target_link_libraries(test_pairs PRIVATE generated_programs)
# The same numbers every day: of the others, one of 250 is known to take the assembler too long (docs/testing.md).
add_test(NAME assemble.pairs COMMAND test_pairs --first 1 --count 100 --seconds 40)
set_tests_properties(assemble.pairs PROPERTIES LABELS "assemble+tileiras" SKIP_RETURN_CODE 77 TIMEOUT 1500)
add_test(NAME pairs.name_their_lines COMMAND test_pairs --first 1 --count 200 --lines)
set_tests_properties(pairs.name_their_lines PROPERTIES LABELS unit)
# A rejection is a failure, and is printed with the program and its lines.
add_test(NAME pairs.print_failures COMMAND test_pairs --first 1 --count 1)
set_tests_properties(pairs.print_failures PROPERTIES LABELS unit
  ENVIRONMENT "TESSERA_CACHE=0;TESSERA_TILEIRAS=${CMAKE_CURRENT_LIST_DIR}/rejects.sh"
  PASS_REGULAR_EXPRESSION "---- 1 for sm_80: .*not today.*  1  program 1\n.*\\(store 0")
