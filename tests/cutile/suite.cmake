# Kernels in cuTile, NVIDIA's kernel language for Python, that the package cuda-tile exports while the test runs: tests/cutile/cutile_test.py.
if(NOT TARGET tessera_command)
  return()
endif()
set(cutile_python ${TESSERA_PYTHON})
if(NOT cutile_python)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  set(cutile_python ${Python3_EXECUTABLE})
endif()
add_test(NAME tools.cutile COMMAND ${cutile_python} -B ${CMAKE_CURRENT_LIST_DIR}/cutile_test.py $<TARGET_FILE:tessera_command>
         ${CMAKE_CURRENT_BINARY_DIR}/cutile)
set_tests_properties(tools.cutile PROPERTIES LABELS tools SKIP_RETURN_CODE 77 PROCESSORS 2 TIMEOUT 300)
