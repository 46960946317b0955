# A selection of tests of every layer as one program, for processors that are emulated, where all tests would take hours:
# what depends on the processor (floating-point numbers, vectors, atomics and threads, stacks, the order of bytes), and of
# each layer a test that goes through it. On a machine of its own architecture the tests are those of the other folders.
if(NOT CMAKE_CROSSCOMPILING)
  return()
endif()
set(selected
    base/base_test base/bytes_test base/float_types_test base/philox_test base/stack_test
    ir/golden_test ir/semantics_test
    lang/core_convert_test
    analysis/divisibility_test
    certify/certify_test
    passes/differential_test
    codegen/cpu/chains_test codegen/cpu/control_test codegen/cpu/memory_test codegen/cpu/ops_elementwise_test
    codegen/cpu/prims_elementary_test codegen/cpu/prims_elementwise_test codegen/cpu/prims_matmul_test
    codegen/cpu/prims_reduce_test codegen/cpu/prims_same_bits_test codegen/cpu/program_test codegen/cpu/threads_test
    codegen/tileiras/rules_test
    runtime/block_cache_test runtime/cpu_stream_test runtime/cuda_backend_test runtime/fork_test runtime/lease_test
    jit/compile_test jit/sha256_test
    host/flow_test host/npy_test host/tensor_test
    mesh/thread_exchange_test
    kernels/reduce_test kernels/softmax_test
    measure/measure_test)
set(links tessera::tessera tessera_measure fake_cuda_driver)
if(TARGET mortar_engine)
  list(APPEND selected mortar/text/tokenizer_test mortar/text/unicode_test mortar/files/safetensors_test mortar/model/parity_test)
  list(APPEND links mortar_engine nlohmann_json::nlohmann_json)
endif()
list(TRANSFORM selected PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
list(TRANSFORM selected APPEND .cpp)
add_executable(test_processor ${selected})
target_link_libraries(test_processor PRIVATE tessera_flags ${links} GTest::gmock GTest::gtest_main)
target_include_directories(test_processor PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/mortar/src ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(test_processor PRIVATE MORTAR_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/mortar/data")
tessera_precompile_test(test_processor)
tessera_join(test_processor THIS_FILE)
# Two processes, not one for each test: the emulator translates the program anew in each.
foreach(shard IN ITEMS 0 1)
  add_test(NAME processor.tests_${shard} COMMAND test_processor --gtest_brief=1 --gtest_filter=-FakeDriver.*)
  set_tests_properties(processor.tests_${shard} PROPERTIES LABELS processor TIMEOUT 900
                       ENVIRONMENT "TESSERA_VERIFY=claims;GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=${shard}")
endforeach()
# Random programs, whose results are compared bit for bit with a reference that shares no code with the CPU backend.
add_test(NAME processor.generate COMMAND test_generate --seed 1 --count 60)
# The commands start, and the first one runs a kernel's passes.
add_test(NAME processor.tessera COMMAND tessera_command doctor)
set_tests_properties(processor.generate processor.tessera PROPERTIES LABELS processor TIMEOUT 600)
# What the compiler makes of the CPU backend's loops.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_test(NAME processor.vector_code COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/vector_code.py ${CMAKE_OBJDUMP}
         $<TARGET_FILE:tessera_codegen_cpu>)
set_tests_properties(processor.vector_code PROPERTIES LABELS processor)
add_custom_target(processor_tests DEPENDS test_processor test_generate tessera_command)
if(TARGET mortar_command)
  add_dependencies(processor_tests mortar_command)
  add_test(NAME processor.mortar COMMAND mortar_command generate ${CMAKE_CURRENT_SOURCE_DIR}/mortar/data/models/dense-tied --device cpu
           --prompt-ids 1,2,3 --greedy --ignore-eos --max-tokens 8 --max-context 256 --json)
  set_tests_properties(processor.mortar PROPERTIES LABELS processor PASS_REGULAR_EXPRESSION "\"ids\"")
endif()
