# Test data of tests/ir, and the check that the committed golden bytes are what cuda-tile writes.
target_compile_definitions(test_ir PRIVATE TESSERA_TEST_DATA="${PROJECT_SOURCE_DIR}/tests")

find_package(Python3 3.9 COMPONENTS Interpreter QUIET)
if(NOT TESSERA_PYTHON)
  set(tessera_golden_python ${Python3_EXECUTABLE})
else()
  set(tessera_golden_python ${TESSERA_PYTHON})
endif()
if(tessera_golden_python)
  add_test(NAME ir.golden_is_current
           COMMAND ${tessera_golden_python} ${CMAKE_CURRENT_LIST_DIR}/golden/make_golden.py --check
                   ${CMAKE_CURRENT_LIST_DIR}/golden/golden.txt)
  add_test(NAME ir.text_is_current
           COMMAND ${tessera_golden_python} ${CMAKE_CURRENT_LIST_DIR}/golden/make_text.py --check
                   ${CMAKE_CURRENT_LIST_DIR}/golden/text.txt)
  set_tests_properties(ir.golden_is_current ir.text_is_current PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endif()

# Reads the kernels that tests/assemble collects.
add_executable(ir_fixed_points ${CMAKE_CURRENT_LIST_DIR}/fixed_points_main.cpp)
target_link_libraries(ir_fixed_points PRIVATE tessera_flags tessera_ir)
target_include_directories(ir_fixed_points PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
