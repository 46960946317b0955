# The reject table: programs that must not compile, each with the sentence it must fail with and a twin that must compile.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
file(GLOB reject_rows CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.rows)
set(reject_compilers ${CMAKE_CXX_COMPILER} ${TESSERA_CLANG})
list(REMOVE_DUPLICATES reject_compilers)
list(FILTER reject_compilers EXCLUDE REGEX "-NOTFOUND$")
list(LENGTH reject_compilers reject_turns)
set(reject_turn 0)
foreach(compiler IN LISTS reject_compilers)
  get_filename_component(name "${compiler}" NAME)
  if(NOT TEST reject.${name})  # once, where both are the same compiler
    add_test(NAME reject.${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/run.py
             --compiler ${compiler} --include ${PROJECT_SOURCE_DIR}/include --turn ${reject_turn}/${reject_turns} ${reject_rows})
    set_tests_properties(reject.${name} PROPERTIES LABELS reject TIMEOUT 600)
  endif()
  math(EXPR reject_turn "${reject_turn} + 1")
endforeach()
