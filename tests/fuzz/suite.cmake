# Fuzzing. Every build runs each target on its seeds and on their neighbours (fuzz_seeds); `ninja fuzzers`, with
# -DTESSERA_BUILD_FUZZERS=ON (as in the preset clang), makes the programs that scripts/fuzz.sh runs.
set(fuzz ${PROJECT_SOURCE_DIR}/tests/fuzz)
file(STRINGS ${fuzz}/targets.def fuzz_rows REGEX "^TESSERA_FUZZ\\(")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${fuzz}/targets.def)
if(NOT TARGET mortar_text)
  list(FILTER fuzz_rows EXCLUDE REGEX "\\(mortar_")
endif()
if(NOT TARGET mortar_requests)
  list(FILTER fuzz_rows EXCLUDE REGEX "\\(server_")
endif()
set(fuzz_names)
foreach(row IN LISTS fuzz_rows)
  string(REGEX REPLACE "^TESSERA_FUZZ\\(([a-z_]+),.*" "\\1" name "${row}")
  list(APPEND fuzz_names ${name})
endforeach()

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${fuzz}/*.cpp)
list(FILTER fuzz_sources EXCLUDE REGEX "_main\\.cpp$")
if(NOT TARGET mortar_text)
  list(FILTER fuzz_sources EXCLUDE REGEX "/mortar_")
endif()
if(NOT TARGET mortar_requests)
  list(FILTER fuzz_sources EXCLUDE REGEX "/server_")
endif()
# What all programs of the targets are made of.
add_library(fuzz_inputs OBJECT ${fuzz_sources})
target_link_libraries(fuzz_inputs PUBLIC tessera_flags tessera::tessera)
target_include_directories(fuzz_inputs PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
if(TARGET mortar_text)
  target_link_libraries(fuzz_inputs PUBLIC mortar_text)
  target_include_directories(fuzz_inputs PUBLIC ${PROJECT_SOURCE_DIR}/mortar/src)
  target_compile_definitions(fuzz_inputs PUBLIC TESSERA_FUZZ_MORTAR)
endif()
if(TARGET mortar_requests)
  find_package(Boost 1.74 CONFIG QUIET)
  find_package(OpenSSL 3.0 REQUIRED)
  target_include_directories(fuzz_inputs PUBLIC $<$<BOOL:${MORTAR_BOOST_HEADERS}>:${MORTAR_BOOST_HEADERS}>)
  target_link_libraries(fuzz_inputs PUBLIC mortar_requests mortar_http $<TARGET_NAME_IF_EXISTS:Boost::headers> OpenSSL::SSL)
  target_compile_definitions(fuzz_inputs PUBLIC TESSERA_FUZZ_SERVER)
endif()
tessera_join(fuzz_inputs)

add_executable(fuzz_seeds ${fuzz}/seeds_main.cpp)
target_link_libraries(fuzz_seeds PRIVATE fuzz_inputs)
foreach(name IN LISTS fuzz_names)
  add_test(NAME fuzz.${name} COMMAND fuzz_seeds ${name} ${fuzz}/seeds/${name})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz)
endforeach()

if(NOT TESSERA_BUILD_FUZZERS)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "TESSERA_BUILD_FUZZERS needs clang (libFuzzer is part of it): -DCMAKE_CXX_COMPILER=clang++-16")
endif()
if(NOT TESSERA_SANITIZE MATCHES "address")
  message(FATAL_ERROR "TESSERA_BUILD_FUZZERS needs -DTESSERA_SANITIZE=address,undefined: without them a finding goes unseen")
endif()

# What is fuzzed reports its coverage, which libFuzzer reads; in other programs the sanitizer ignores it.
target_compile_options(fuzz_inputs PRIVATE $<$<CONFIG:Dev>:-O1> -fsanitize=fuzzer-no-link)
file(GLOB fuzzed CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/base/*.cpp)
foreach(file IN ITEMS
        analysis/launch_program analysis/launch_program_bytes analysis/facts
        codegen/tileiras/messages codegen/tileiras/find codegen/tileiras/files
        host/array_text host/borrow host/call_text host/collecting host/convert host/create host/dlpack host/layout host/npy
        host/npy_format host/op host/operand host/transfer
        ir/bytecode_reader ir/bytecode_sections ir/bytecode_tables ir/bytecode_values ir/bytecode_versions
        ir/bytecode_writer ir/formats ir/op_info ir/parse_operations ir/parse_regions ir/parser ir/printer ir/text_attributes
        ir/text_cursor ir/text_types ir/text_values ir/types ir/value_names ir/verifier ir/verify_control ir/verify_math
        ir/verify_memory ir/verify_shape ir/verify_types
        jit/ahead/collect jit/code/cubin_resources jit/code/sha256 jit/compile/pipeline jit/store/bundle jit/store/cache_file
        jit/store/code_stores jit/store/disk_cache jit/tuning/hint_space jit/tuning/tuning_file jit/tuning/tuning_journal
        jit/tuning/tuning_record
        passes/tuning_text
        runtime/device runtime/foreign_memory runtime/lease runtime/storage)
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/src/${file}.cpp)
    message(FATAL_ERROR "tests/fuzz/suite.cmake names src/${file}.cpp, which is not there: it would not be fuzzed by its coverage")
  endif()
  list(APPEND fuzzed ${PROJECT_SOURCE_DIR}/src/${file}.cpp)
endforeach()
# CMake joins no files that have options of their own. Where files are joined, those of a layer become one here, which takes
# two fifths of the time; a file with definitions of its own stays alone.
if(TESSERA_JOIN_SOURCES)
  get_property(layers GLOBAL PROPERTY TESSERA_LAYERS)
  foreach(layer IN LISTS layers)
    get_target_property(sources ${layer} SOURCES)
    set(together)
    foreach(file IN LISTS fuzzed)
      get_source_file_property(definitions ${file} DIRECTORY ${PROJECT_SOURCE_DIR} COMPILE_DEFINITIONS)
      if(file IN_LIST sources AND NOT definitions)
        list(APPEND together ${file})
      endif()
    endforeach()
    list(LENGTH together count)
    if(count GREATER 1)
      list(REMOVE_ITEM sources ${together})
      list(REMOVE_ITEM fuzzed ${together})
      list(TRANSFORM together REPLACE "^${PROJECT_SOURCE_DIR}/src/(.+)" "#include \"\\1\"\n")
      list(JOIN together "" includes)
      set(file ${PROJECT_BINARY_DIR}/fuzzed/${layer}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${includes}")
      list(APPEND fuzzed ${file})
      set_target_properties(${layer} PROPERTIES SOURCES "${sources};${file}")
    endif()
  endforeach()
endif()
# (A header that is precompiled without this option cannot be used with it.)
set_source_files_properties(${fuzzed} DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTIES COMPILE_OPTIONS -fsanitize=fuzzer-no-link
                            SKIP_PRECOMPILE_HEADERS ON)
if(TARGET mortar_text)
  target_compile_options(mortar_text PRIVATE -fsanitize=fuzzer-no-link)
endif()
if(TARGET mortar_requests)
  target_compile_options(mortar_requests PRIVATE -fsanitize=fuzzer-no-link)
  target_compile_options(mortar_http PRIVATE -fsanitize=fuzzer-no-link)
endif()

add_executable(fuzzer EXCLUDE_FROM_ALL ${fuzz}/libfuzzer_main.cpp)
target_link_options(fuzzer PRIVATE -fsanitize=fuzzer)
target_link_libraries(fuzzer PRIVATE fuzz_inputs)
# One program, started by the names of its targets.
set(links)
foreach(name IN LISTS fuzz_names)
  list(APPEND links COMMAND ${CMAKE_COMMAND} -E create_symlink fuzzer fuzz_${name})
endforeach()
add_custom_target(fuzzers ${links} WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} DEPENDS fuzzer)
