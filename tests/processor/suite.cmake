# A selection of tests of every layer as three programs, for processors that are emulated, where all tests would take hours:
# what depends on the processor (floating-point numbers, vectors, atomics and threads, stacks, the order of bytes), and of
# each layer a test that goes through it. On a machine of its own architecture the tests are those of the other folders.
if(NOT CMAKE_CROSSCOMPILING)
  return()
endif()
add_custom_target(processor_tests)

# tessera_processor_test(<name> [SKIP <tests>] LINK <targets> SOURCES <files of tests, without _test.cpp>): SKIP names what
# takes long in an emulator. Death tests start their program again, which the system cannot without the emulator; tests
# that start other programs from one with several threads are left out, because qemu-user 7.2 can hang there.
function(tessera_processor_test name)
  cmake_parse_arguments(ARG "" "SKIP" "LINK;SOURCES" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM ARG_SOURCES APPEND _test.cpp)
  set(program test_processor_${name})
  add_executable(${program} ${ARG_SOURCES})
  target_link_libraries(${program} PRIVATE tessera_flags ${ARG_LINK} GTest::gmock GTest::gtest_main)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/mortar/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${program} PRIVATE TESSERA_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}"
                             MORTAR_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/mortar/data")
  tessera_precompile_test(${program})
  tessera_join(${program} THIS_FILE)
  add_dependencies(processor_tests ${program})
  # One process, not one for each test: the emulator translates the program anew in each.
  add_test(NAME processor.${name} COMMAND ${program} --gtest_brief=1 --gtest_filter=-*DeathTest.*:${ARG_SKIP})
  set_tests_properties(processor.${name} PROPERTIES LABELS processor TIMEOUT 900 ENVIRONMENT TESSERA_VERIFY=claims)
endfunction()

tessera_processor_test(compiler SKIP Differential.A*:Differential.B*:Differential.L*:Differential.P*:Divisibility.LowBits* LINK tessera_lang tessera_codegen_cpu tessera_jit SOURCES
  base/base base/bytes base/float_types base/philox base/stack
  ir/golden ir/semantics
  lang/core_convert
  analysis/divisibility
  certify/certify
  passes/differential
  jit/compile jit/sha256)
tessera_processor_test(cpu LINK tessera_codegen_cpu tessera_runtime SOURCES
  codegen/cpu/control codegen/cpu/memory codegen/cpu/ops_elementwise codegen/cpu/prims_elementwise
  codegen/cpu/prims_matmul codegen/cpu/prims_reduce codegen/cpu/prims_same_bits codegen/cpu/program codegen/cpu/threads
  runtime/block_cache runtime/cpu_stream runtime/lease)
set(links tessera::tessera)
set(selected host/flow host/npy host/tensor mesh/thread_exchange kernels/reduce kernels/softmax)
if(TARGET mortar_text)
  list(APPEND links mortar_text nlohmann_json::nlohmann_json)
  list(APPEND selected mortar/text/tokenizer mortar/text/unicode mortar/files/safetensors)
endif()
tessera_processor_test(users SKIP NpyHeader.Fuzzed*:Reduce.NarrowIntegers*:Flows.ManyOperations*:MortarTokenizer.TakesLong* LINK ${links} SOURCES ${selected})

# Random programs, whose results are compared bit for bit with a reference that shares no code with the CPU backend. In the
# emulator each takes four seconds, in which it is translated: ten of the thirty on one day.
add_dependencies(processor_tests test_generate)
add_test(NAME processor.generate COMMAND test_generate --seed 1 --days 3 --count 30)
set_tests_properties(processor.generate PROPERTIES LABELS processor TIMEOUT 900)

# What the compiler makes of the CPU backend's loops.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_test(NAME processor.vector_code COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/vector_code.py ${CMAKE_OBJDUMP}
         $<FILTER:$<TARGET_OBJECTS:tessera_codegen_cpu>,INCLUDE,prims/[a-z]+_baseline> COMMAND_EXPAND_LISTS)
set_tests_properties(processor.vector_code PROPERTIES LABELS processor)
