# Tests of the project's own shape: layering, light headers, formatting. They read files and need no build.
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(WARNING "Python 3 was not found: the structure tests are left out (apt-get install python3)")
  return()
endif()

# tessera_structure_test(<name> <script> [arguments...])
function(tessera_structure_test name script)
  add_test(NAME structure.${name} COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tests/structure/${script} ${ARGN})
  set_tests_properties(structure.${name} PROPERTIES LABELS structure SKIP_RETURN_CODE 77)
endfunction()

tessera_structure_test(layers layers.py)
tessera_structure_test(layers_selftest layers.py --selftest)
tessera_structure_test(headers headers.py)
tessera_structure_test(texts texts.py)
tessera_structure_test(formatting formatting.py)
tessera_structure_test(continue_lint continue_lint.py --fixture)
