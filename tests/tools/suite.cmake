# The tessera command, from outside: compiling ahead of time, the cache. Needs examples; skipped without an assembler.
if(NOT TARGET tessera_command OR NOT TARGET example_03_saxpy)
  return()
endif()
set(no_assembler "was not found: run tessera get-tileiras")
find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_test(NAME tools.build COMMAND tessera_command build -o ${CMAKE_CURRENT_BINARY_DIR}/saxpy.tessera --gpu sm_80,sm_90 --
         $<TARGET_FILE:example_03_saxpy>)
# Assembles kernels with several pieces per block for every generation: the guide's kernels, most of which support it.
foreach(page 04-tiles 05-reading-and-writing 08-shared-results)
  if(TARGET guide_${page})
    add_test(NAME tools.build_pieces_${page} COMMAND tessera_command build
             -o ${CMAKE_CURRENT_BINARY_DIR}/pieces-${page}.tessera --gpu sm_80,sm_90,sm_100,sm_120 --
             $<TARGET_FILE:guide_${page}>)
    set_tests_properties(tools.build_pieces_${page} PROPERTIES LABELS "tools+tileiras" ENVIRONMENT TESSERA_TUNING=pieces=8
                         SKIP_REGULAR_EXPRESSION "${no_assembler}")
  endif()
endforeach()
add_test(NAME tools.build_list COMMAND tessera_command build --list ${CMAKE_CURRENT_BINARY_DIR}/saxpy.tessera)
set_tests_properties(tools.build PROPERTIES LABELS "tools+tileiras" FIXTURES_SETUP saxpy_bundle
                     SKIP_REGULAR_EXPRESSION "${no_assembler}")
set_tests_properties(tools.build_list PROPERTIES LABELS "tools+tileiras" FIXTURES_REQUIRED saxpy_bundle
                     PASS_REGULAR_EXPRESSION "saxpy +sm_90.*saxpy +sm_80|saxpy +sm_80.*saxpy +sm_90"
                     SKIP_REGULAR_EXPRESSION "cannot open the kernel bundle")
add_test(NAME tools.lines COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/lines.py
         ${CMAKE_CURRENT_BINARY_DIR}/saxpy.tessera ${PROJECT_SOURCE_DIR}/examples/03_saxpy.cpp)
set_tests_properties(tools.lines PROPERTIES LABELS "tools+tileiras" FIXTURES_REQUIRED saxpy_bundle
                     SKIP_REGULAR_EXPRESSION "no bundle: |readelf was not found")
add_test(NAME tools.cache COMMAND tessera_command cache size)
set_tests_properties(tools.cache PROPERTIES LABELS tools PASS_REGULAR_EXPRESSION "kernels, .* MiB of|switched off")
add_test(NAME tools.explain COMMAND tessera_command explain --kernel saxpy -- $<TARGET_FILE:example_03_saxpy>)
set_tests_properties(tools.explain PROPERTIES LABELS "tools+tileiras"
                     PASS_REGULAR_EXPRESSION "kernel saxpy for sm_90.*predicates.*accesses.*03_saxpy.cpp.*load.*16 bytes at a time.*hints: warps")
add_test(NAME tools.ir_files COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/ir_files.py $<TARGET_FILE:tessera_command>
         ${CMAKE_CURRENT_BINARY_DIR}/ir_files)
set_tests_properties(tools.ir_files PROPERTIES LABELS tools)
add_test(NAME tools.explain_passes COMMAND tessera_command explain --passes)
set_tests_properties(tools.explain_passes PROPERTIES LABELS tools
                     PASS_REGULAR_EXPRESSION " apply_claims .* clean_up .* split_loops .*off with TESSERA_TUNING=split=0.* lower_checks ")
add_test(NAME tools.explain_after
         COMMAND tessera_command explain --after clean_up,unmask --kernel saxpy -- $<TARGET_FILE:example_03_saxpy>)
set_tests_properties(tools.explain_after PROPERTIES LABELS tools
                     PASS_REGULAR_EXPRESSION "// saxpy-sm_90-[0-9a-f]+[.]0[0-9]-clean_up.entry @saxpy.*[.][0-9][0-9]-unmask.entry @saxpy")
add_test(NAME tools.explain_after_unknown COMMAND tessera_command explain --after tidy softmax)
set_tests_properties(tools.explain_after_unknown PROPERTIES LABELS tools PASS_REGULAR_EXPRESSION "there is no pass tidy")
add_executable(own_bench ${CMAKE_CURRENT_LIST_DIR}/own_bench.cpp)
target_link_libraries(own_bench PRIVATE tessera_flags tessera::tessera tessera_measure)
add_test(NAME tools.bench COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/bench.py $<TARGET_FILE:tessera_command>
         $<TARGET_FILE:own_bench>)
set_tests_properties(tools.bench PROPERTIES LABELS tools)
# How scripts/gpu-check.sh and bench/run_*.sh merge the figures of several runs.
add_test(NAME tools.report COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bench/gpu/report.py --selftest)
add_test(NAME tools.peers COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bench/gpu/peers.py --selftest)
add_test(NAME tools.compare COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bench/gpu/compare.py --selftest)
add_test(NAME tools.flight_table COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bench/in_flight/table.py --selftest)
add_test(NAME tools.put_section COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/bench/put_section.py --selftest)
set_tests_properties(tools.report tools.peers tools.compare tools.flight_table tools.put_section PROPERTIES LABELS tools)
add_test(NAME tools.version COMMAND tessera_command --version)
set_tests_properties(tools.version PROPERTIES LABELS tools PASS_REGULAR_EXPRESSION "^tessera ${PROJECT_VERSION}\n$")

# tessera doctor: every section, and its report on a machine where something is missing or misspelt.
add_test(NAME tools.doctor COMMAND tessera_command doctor)
set_tests_properties(tools.doctor PROPERTIES LABELS tools PASS_REGULAR_EXPRESSION
                     "processors.*GPUs.*Assembler.*sm_120.*Compiled kernels on disk.*Profiler.*Environment variables.*Result\nKernels run on")
add_test(NAME tools.doctor_missing COMMAND tessera_command doctor)
set_tests_properties(tools.doctor_missing PROPERTIES LABELS tools
                     ENVIRONMENT "TESSERA_TILEIRAS=/nowhere/tileiras;TESSERA_DEVIZE=cpu"
                     PASS_REGULAR_EXPRESSION "TESSERA_DEVIZE\n +unknown.*Result\n.*no assembler for some GPUs[^\n]*\n +run tessera get-tileiras [^\n]*\n")
# An environment variable with an invalid value is one of the findings, not an error of the command.
add_test(NAME tools.doctor_wrong_knobs COMMAND tessera_command doctor)
set_tests_properties(tools.doctor_wrong_knobs PROPERTIES LABELS tools
                     ENVIRONMENT "TESSERA_CACHE_MB=-3;TESSERA_DEVICE=none"
                     PASS_REGULAR_EXPRESSION "Profiler.*Environment variables.*Result\nKernels run on.*TESSERA_DEVICE: .none. is not a device.*TESSERA_CACHE_MB is .-3.; expected a whole number[^\n]*\n +correct it")
# tessera explain of a library kernel, chosen as on the GPU (the CPU chooses other tiles), and measured.
add_test(NAME tools.explain_library COMMAND tessera_command explain gemm n=2048 m=2048 k=64 dtype=bf16)
set_tests_properties(tools.explain_library PROPERTIES LABELS "tools+tileiras"
                     PASS_REGULAR_EXPRESSION "kernel gemm_tiles? for sm_90.*store +tile<(64|128)x[0-9]+xbf16>")
add_test(NAME tools.explain_measured COMMAND tessera_command explain softmax rows=16 columns=1024 dtype=f32 --device cpu)
set_tests_properties(tools.explain_measured PROPERTIES LABELS "tools+tileiras"
                     PASS_REGULAR_EXPRESSION "kernel softmax_row for sm_90.*predicates.*load.*softmax on cpu.*rows=16 columns=1024.*GB/s +[0-9.]+ %")
add_test(NAME tools.explain_wrong COMMAND tessera_command explain softmax columns=many)
set_tests_properties(tools.explain_wrong PROPERTIES LABELS tools PASS_REGULAR_EXPRESSION "columns must be a whole number, found many")
add_test(NAME tools.explain_unknown COMMAND tessera_command explain sofmax)
set_tests_properties(tools.explain_unknown PROPERTIES LABELS tools
                     PASS_REGULAR_EXPRESSION "there is no kernel sofmax; tessera bench --list prints them")
add_test(NAME tools.explain_all_predicates COMMAND tessera_command explain softmax rows=16 columns=1000 -v)
set_tests_properties(tools.explain_all_predicates PROPERTIES LABELS "tools+tileiras" SKIP_REGULAR_EXPRESSION "${no_assembler}"
                     PASS_REGULAR_EXPRESSION "predicates of the launch .. holds, - does not.\n    - [^\n]*.dim.1. is a multiple of 1024\n.*    . [^\n]*.address is a multiple of 16\n")
add_test(NAME tools.explain_unmet_predicates COMMAND tessera_command explain softmax rows=16 columns=1000)
set_tests_properties(tools.explain_unmet_predicates PROPERTIES LABELS "tools+tileiras" SKIP_REGULAR_EXPRESSION "${no_assembler}"
                     PASS_REGULAR_EXPRESSION "predicates of the launch that do not hold .[0-9]+ hold: -v.\n    - [^\n]*.dim.1. is a multiple of 1024\n"
                     FAIL_REGULAR_EXPRESSION "[.]address;largest tile")
# By the names of the parameters, where the source is found as the compiler was given it.
add_test(NAME tools.explain_names COMMAND tessera_command explain -v --kernel saxpy -- $<TARGET_FILE:example_03_saxpy>)
set_tests_properties(tools.explain_names PROPERTIES LABELS "tools+tileiras" SKIP_REGULAR_EXPRESSION "${no_assembler}"
                     WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
                     PASS_REGULAR_EXPRESSION " y.address is a multiple of 16\n" FAIL_REGULAR_EXPRESSION "arg1")
add_test(NAME tools.lint COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/lint.py $<TARGET_FILE:tessera_command>)
set_tests_properties(tools.lint PROPERTIES LABELS tools SKIP_RETURN_CODE 77 TIMEOUT 600)
add_test(NAME tools.explain_misspelt COMMAND tessera_command explain softmax column=64)
set_tests_properties(tools.explain_misspelt PROPERTIES LABELS tools PASS_REGULAR_EXPRESSION "softmax has no argument column")
add_test(NAME tools.explain_gpus COMMAND tessera_command explain softmax --gpu sm_90,hopper)
set_tests_properties(tools.explain_gpus PROPERTIES LABELS tools
                     PASS_REGULAR_EXPRESSION "--gpu takes a list such as sm_90,sm_100, found sm_90,hopper")
add_test(NAME tools.tune COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/tune.py $<TARGET_FILE:tessera_command>)
set_tests_properties(tools.tune PROPERTIES LABELS tools)
# Kernels whose chosen form the assembler rejects: it is a script here.
set(rejecting "TESSERA_TILEIRAS=${CMAKE_CURRENT_LIST_DIR}/rejecting_assembler.sh;TESSERA_CACHE=0")
add_test(NAME tools.explain_rejected COMMAND tessera_command explain --kernel saxpy -- $<TARGET_FILE:example_03_saxpy>)
set_tests_properties(tools.explain_rejected PROPERTIES LABELS tools ENVIRONMENT "${rejecting}" PASS_REGULAR_EXPRESSION
                     "hints: warps left to the assembler.*form bare: ahead=0 pieces=1 guards=0 pipeline=0 unmask=0 tiles=0 limit=0 hints=0\n +instead of the chosen one: the assembler rejects the kernel for sm_90 .exit code 1.: too many warps")
add_test(NAME tools.explain_asked COMMAND tessera_command explain --kernel saxpy -- $<TARGET_FILE:example_03_saxpy>)
set_tests_properties(tools.explain_asked PROPERTIES LABELS tools ENVIRONMENT "${rejecting};TESSERA_TUNING=warps=4"
                     PASS_REGULAR_EXPRESSION "the assembler rejects the kernel for sm_90 .exit code 1.: too many warps.*hints: warps 4|hints: warps 4.*the assembler rejects the kernel for sm_90 .exit code 1.: too many warps"
                     FAIL_REGULAR_EXPRESSION "form (bare|fallback)")
if(TARGET guide_04-tiles)
  add_test(NAME tools.explain_goes_on COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/explain.py
           $<TARGET_FILE:tessera_command> $<TARGET_FILE:guide_04-tiles> ${CMAKE_CURRENT_LIST_DIR}/rejecting_assembler.sh)
  set_tests_properties(tools.explain_goes_on PROPERTIES LABELS tools)
endif()
add_test(NAME tools.build_rejected COMMAND tessera_command build -o ${CMAKE_CURRENT_BINARY_DIR}/rejected.tessera --
         $<TARGET_FILE:example_03_saxpy>)
set_tests_properties(tools.build_rejected PROPERTIES LABELS tools ENVIRONMENT "${rejecting}" PASS_REGULAR_EXPRESSION
                     "saxpy +sm_90 .*form bare .ahead=0 pieces=1 guards=0 pipeline=0 unmask=0 tiles=0 limit=0 hints=0.: kernel saxpy: the assembler rejects the kernel for sm_90 .exit code 1.: too many warps.*kernels in")
# The listings of docs/internals/one-kernel.md are what the compiler makes. They are those of g++: C++ leaves the order of a
# sum's operands open, and clang records the two loads of saxpy the other way round.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_test(NAME tools.one_kernel COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/one_kernel.py
           $<TARGET_FILE:tessera_command> $<TARGET_FILE:example_03_saxpy>)
  set_tests_properties(tools.one_kernel PROPERTIES LABELS tools)
endif()
