# tessera_torch_library(<target> <sources>... [NO_SYMBOL_CHECK]): a library of operators of PyTorch (docs/torch.md), which
# torch.ops.load_library() loads: <target>.so in the build folder. It needs the headers of PyTorch 2.10 or newer, which its
# wheel has, and no CUDA toolkit: those of the Python that find_package(Python3) chooses (-DPython3_EXECUTABLE=...), or
# -DTESSERA_TORCH_DIR=<the folder site-packages/torch>. The library uses PyTorch's stable ABI alone, so it works with every
# release from 2.10 on; after linking its undefined symbols are looked through, and any other one is an error.

# Sets TESSERA_TORCH_DIR, empty if there is no PyTorch. It is looked for without importing it, which takes seconds.
function(tessera_find_torch)
  if(NOT TESSERA_TORCH_DIR)
    find_package(Python3 QUIET COMPONENTS Interpreter)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c
                    "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '', end='')"
                    OUTPUT_VARIABLE found ERROR_QUIET)
    set(TESSERA_TORCH_DIR "${found}" CACHE PATH "PyTorch: the folder site-packages/torch" FORCE)
  endif()
endfunction()

function(tessera_torch_library target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "NO_SYMBOL_CHECK" "" "")
  tessera_find_torch()
  set(torch ${TESSERA_TORCH_DIR})
  if(NOT EXISTS "${torch}/include/torch/csrc/stable/c/shim.h")
    message(FATAL_ERROR "tessera_torch_library(${target}): no PyTorch 2.10 or newer in '${torch}' (Python: ${Python3_EXECUTABLE}). "
                        "Choose a Python that has it with -DPython3_EXECUTABLE=..., or its folder with -DTESSERA_TORCH_DIR=...")
  endif()
  add_library(${target} MODULE ${ARG_UNPARSED_ARGUMENTS})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_include_directories(${target} SYSTEM PRIVATE ${torch}/include)
  # PyTorch's libraries export some functions of the C++ runtime, without versions: the runtime's come first. By name
  # libtorch.so alone is needed when the library is loaded; that has libtorch_cuda with it where there is one.
  target_link_libraries(${target} PRIVATE tessera::tessera -lstdc++ -Wl,--push-state,--no-as-needed ${torch}/lib/libtorch.so
                                          ${torch}/lib/libtorch_cpu.so -Wl,--pop-state)
  # Nothing of Tessera is visible outside, so that libraries with different versions of it live in one process.
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
  target_compile_options(${target} PRIVATE -fvisibility=hidden $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  set_target_properties(${target} PROPERTIES PREFIX "" BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "")
  if(NOT ARG_NO_SYMBOL_CHECK)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    add_custom_command(TARGET ${target} POST_BUILD VERBATIM
      COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/torch_symbols.py $<TARGET_FILE:${target}>)
  endif()
endfunction()
