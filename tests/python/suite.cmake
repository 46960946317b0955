# The Python package with the NumPy of TESSERA_NUMPY_PYTHON, else of TESSERA_PYTHON or the system's Python. Without one every
# test here says so and counts as skipped.
set(TESSERA_NUMPY_PYTHON "$ENV{TESSERA_NUMPY_PYTHON}" CACHE FILEPATH "Python 3.11 or newer with NumPy 2.1 or newer, for the tests python.* (empty: one that is known otherwise)")
set(numpy_python "")
if(NOT TESSERA_SANITIZE)
  foreach(candidate IN ITEMS ${TESSERA_NUMPY_PYTHON} ${TESSERA_PYTHON} ${TESSERA_TORCH_PYTHON} ${Python3_EXECUTABLE})
    execute_process(COMMAND ${candidate} -c
                    "import sys, numpy; sys.exit(not (sys.version_info >= (3, 11) and tuple(map(int, numpy.__version__.split('.')[:2])) >= (2, 1)))"
                    RESULT_VARIABLE unusable OUTPUT_QUIET ERROR_QUIET)
    if(NOT numpy_python AND unusable EQUAL 0)
      set(numpy_python ${candidate})
    endif()
  endforeach()
endif()
set(python_tests package package_checked package_poisoned)  # and torch, operators and gradients, where there is a PyTorch
if(NOT numpy_python)
  foreach(name IN LISTS python_tests)
    add_test(NAME python.${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/skipped.py)
    set_tests_properties(python.${name} PROPERTIES LABELS python SKIP_RETURN_CODE 77)
  endforeach()
  return()
endif()

set(torch_folder "")
if(TESSERA_TORCH_PYTHON)
  execute_process(COMMAND ${TESSERA_TORCH_PYTHON} -c
                  "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '', end='')"
                  OUTPUT_VARIABLE torch_folder ERROR_QUIET)
endif()
if(NOT TARGET tessera_python)
  set(TESSERA_TORCH_DIR "${torch_folder}")
  add_subdirectory(${PROJECT_SOURCE_DIR}/python ${PROJECT_BINARY_DIR}/python)
endif()
foreach(name IN LISTS python_tests)
  add_test(NAME python.${name} COMMAND ${numpy_python} -B ${CMAKE_CURRENT_LIST_DIR}/package_test.py ${PROJECT_BINARY_DIR}/python)
  set_tests_properties(python.${name} PROPERTIES LABELS python TIMEOUT 300 ENVIRONMENT TESSERA_DEVICE=cpu)
endforeach()
# Results are full of NaN before a kernel runs, and reading what was not written is an error; malloc() fills what it returns.
set_property(TEST python.package_checked APPEND PROPERTY ENVIRONMENT TESSERA_CHECK=1)
set_property(TEST python.package_poisoned APPEND PROPERTY ENVIRONMENT MALLOC_PERTURB_=85)

# The package's types, strictly; those of its module for PyTorch need PyTorch's.
execute_process(COMMAND ${numpy_python} -c "import mypy" RESULT_VARIABLE no_mypy OUTPUT_QUIET ERROR_QUIET)
file(GLOB typed CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/tessera/*.py)
set(types_of_torch --python-executable ${TESSERA_TORCH_PYTHON})
if(NOT torch_folder)
  list(FILTER typed EXCLUDE REGEX "/torch\\.py$")
  set(types_of_torch "")
endif()
if(no_mypy EQUAL 0)
  add_test(NAME python.types COMMAND ${numpy_python} -m mypy --strict ${types_of_torch} --cache-dir ${CMAKE_CURRENT_BINARY_DIR}/mypy ${typed})
else()
  add_test(NAME python.types COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/skipped.py)
endif()
set_tests_properties(python.types PROPERTIES LABELS python TIMEOUT 300 SKIP_RETURN_CODE 77)

# With tensors of PyTorch, and as operators of PyTorch.
foreach(name IN ITEMS torch operators gradients)
  if(torch_folder AND (name STREQUAL torch OR TARGET tessera_python_torch))
    add_test(NAME python.${name} COMMAND ${TESSERA_TORCH_PYTHON} -B ${CMAKE_CURRENT_LIST_DIR}/${name}_test.py ${PROJECT_BINARY_DIR}/python)
  else()
    add_test(NAME python.${name} COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/torch/skipped.py)
  endif()
  # torch.compile with the backend inductor calls a C++ compiler, whose precompiled headers are shared.
  set(environment TESSERA_DEVICE=cpu OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=1 TORCHINDUCTOR_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/inductor)
  set_tests_properties(python.${name} PROPERTIES LABELS python TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
endforeach()
