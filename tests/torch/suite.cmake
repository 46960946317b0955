# Operators of PyTorch, with the PyTorch of TESSERA_TORCH_PYTHON (scripts/test.sh --torch installs one), else of the system's
# Python. Without one every test here says so and counts as skipped.
set(TESSERA_TORCH_PYTHON "$ENV{TESSERA_TORCH_PYTHON}" CACHE FILEPATH "Python with PyTorch 2.10 or newer, for the tests torch.* (empty: the system's)")
set(torch_python ${TESSERA_TORCH_PYTHON})
if(NOT torch_python)
  set(torch_python ${Python3_EXECUTABLE})
endif()
execute_process(COMMAND ${torch_python} -c
                "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '', end='')"
                OUTPUT_VARIABLE torch_folder ERROR_QUIET)
set(torch_tests example operators symbols symbols_negative)
if(TESSERA_SANITIZE OR NOT EXISTS "${torch_folder}/include/torch/csrc/stable/c/shim.h")
  foreach(name IN LISTS torch_tests)
    add_test(NAME torch.${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/skipped.py)
    set_tests_properties(torch.${name} PROPERTIES LABELS torch SKIP_RETURN_CODE 77)
    if(TESSERA_SANITIZE)  # skipped whatever is there, also in a run that needs PyTorch
      set_tests_properties(torch.${name} PROPERTIES ENVIRONMENT TESSERA_REQUIRE_TORCH=0)
    endif()
  endforeach()
  return()
endif()

set(TESSERA_TORCH_DIR ${torch_folder})
set(torch_example ${PROJECT_SOURCE_DIR}/examples/torch_op)
tessera_torch_library(tessera_torch_op ${torch_example}/ops.cpp)
tessera_torch_library(tessera_test_ops ${CMAKE_CURRENT_LIST_DIR}/ops.cpp)
tessera_torch_library(tessera_wrong_op ${CMAKE_CURRENT_LIST_DIR}/wrong_op.cpp)
# Uses a C++ function of PyTorch: what the check has to find.
tessera_torch_library(tessera_unstable_op ${CMAKE_CURRENT_LIST_DIR}/unstable_op.cpp NO_SYMBOL_CHECK)
foreach(target tessera_torch_op tessera_test_ops tessera_wrong_op tessera_unstable_op)
  target_link_libraries(${target} PRIVATE tessera_flags)
endforeach()

add_test(NAME torch.example COMMAND ${torch_python} -B ${torch_example}/test_torch_op.py $<TARGET_FILE_DIR:tessera_torch_op> --device cpu)
add_test(NAME torch.operators COMMAND ${torch_python} -B ${CMAKE_CURRENT_LIST_DIR}/operators_test.py $<TARGET_FILE:tessera_test_ops> $<TARGET_FILE:tessera_wrong_op>)
set(symbols ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/cmake/torch_symbols.py)
add_test(NAME torch.symbols COMMAND ${symbols} $<TARGET_FILE:tessera_torch_op> $<TARGET_FILE:tessera_test_ops>)
add_test(NAME torch.symbols_negative COMMAND ${symbols} $<TARGET_FILE:tessera_unstable_op>)
set_tests_properties(torch.symbols_negative PROPERTIES PASS_REGULAR_EXPRESSION "needs c10::GetCPUAllocator.*not part of PyTorch's stable ABI")
foreach(name IN LISTS torch_tests)
  set_property(TEST torch.${name} APPEND PROPERTY LABELS torch)
  set_tests_properties(torch.${name} PROPERTIES TIMEOUT 300)
endforeach()
