# Tests of Mortar. test_mortar_text: tokenizer, chat template, files of a checkpoint. test_mortar: the model and the engine.
if(NOT TARGET mortar_text)
  return()
endif()
find_package(nlohmann_json 3.9 REQUIRED)

# tessera_mortar_test(<program> LINK <targets> SOURCES <files> [LABELS <labels>])
function(tessera_mortar_test name)
  cmake_parse_arguments(ARG "" "LABELS" "LINK;SOURCES" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_SOURCES)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tessera_flags ${ARG_LINK} nlohmann_json::nlohmann_json GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/mortar/src ${PROJECT_SOURCE_DIR}/tests)
  tessera_precompile_test(${name})
  tessera_join(${name} THIS_FILE)
  target_compile_definitions(${name} PRIVATE MORTAR_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/mortar/data")
  gtest_discover_tests(${name} TEST_FILTER -FakeDriver.* PROPERTIES LABELS ${ARG_LABELS} DISCOVERY_TIMEOUT 60)
endfunction()

file(GLOB mortar_text_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/text/*_test.cpp ${CMAKE_CURRENT_LIST_DIR}/files/*_test.cpp
     ${CMAKE_CURRENT_LIST_DIR}/answer/*_test.cpp ${CMAKE_CURRENT_LIST_DIR}/grammar/*_test.cpp)
tessera_mortar_test(test_mortar_text LINK mortar_text SOURCES ${mortar_text_tests})

# Structured answers, for the differential test and bench/mortar/structured.py. The same flags as the library: it measures.
add_executable(mortar_grammar_oracle ${CMAKE_CURRENT_LIST_DIR}/grammar/oracle_main.cpp)
target_link_libraries(mortar_grammar_oracle PRIVATE tessera_flags mortar_text nlohmann_json::nlohmann_json)

# Differential tests against Hugging Face tokenizers and jinja2: skipped where Python has them not.
add_executable(mortar_text_oracle ${CMAKE_CURRENT_LIST_DIR}/text/oracle_main.cpp)
target_link_libraries(mortar_text_oracle PRIVATE tessera_flags mortar_text nlohmann_json::nlohmann_json)
target_include_directories(mortar_text_oracle PRIVATE ${PROJECT_SOURCE_DIR}/mortar/src)
set(mortar_python ${TESSERA_PYTHON})
if(NOT mortar_python)
  find_package(Python3 COMPONENTS Interpreter QUIET)
  set(mortar_python ${Python3_EXECUTABLE})
endif()
if(mortar_python)
  set(cases_of_tokenizer 20000)
  set(cases_of_template 3000)
  foreach(part IN ITEMS tokenizer template)
    set(cases ${cases_of_${part}})
    if(TESSERA_SANITIZE)
      math(EXPR cases "${cases} / 16")  # as tests/base/rounds.hpp
    endif()
    add_test(NAME mortar.${part}_oracle COMMAND ${mortar_python} ${CMAKE_CURRENT_LIST_DIR}/text/${part}_oracle.py
                                                $<TARGET_FILE:mortar_text_oracle> --count ${cases})
    set_tests_properties(mortar.${part}_oracle PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
  endforeach()
  add_test(NAME mortar.grammar_oracle COMMAND ${mortar_python} ${CMAKE_CURRENT_LIST_DIR}/grammar/grammar_oracle.py
                                              $<TARGET_FILE:mortar_grammar_oracle>)
  set_tests_properties(mortar.grammar_oracle PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endif()

# HTTP over loopback sockets; also for the thread sanitizer.
if(TARGET mortar_http)
  find_package(OpenSSL 3.0 REQUIRED)  # certificates of the tests
  file(GLOB mortar_http_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/http/*_test.cpp ${CMAKE_CURRENT_LIST_DIR}/load/*_test.cpp
       ${CMAKE_CURRENT_LIST_DIR}/metrics/*_test.cpp)
  tessera_mortar_test(test_mortar_http LINK mortar_http OpenSSL::Crypto LABELS unit+concurrency SOURCES ${mortar_http_tests})
  add_dependencies(concurrency_tests test_mortar_http)
endif()

# Requests and answers of the server, without a network.
if(TARGET mortar_server)
  file(GLOB mortar_server_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/server/*_test.cpp)
  tessera_mortar_test(test_mortar_server LINK mortar_server SOURCES ${mortar_server_tests})
  # decoding_test.cpp counts calls of Tokenizer::bytes.
  target_link_options(test_mortar_server PRIVATE LINKER:--wrap=_ZNK6mortar9Tokenizer5bytesEi)
  # The program with the packages of OpenAI and Anthropic, and requests made of its description: skipped where Python has them not.
  # The others need Python alone: faults around it, kill -9, and a quarter of a minute of 200 clients that come and go.
  set(words_of_storm --seconds 15)
  if(TESSERA_SANITIZE)
    set(words_of_storm --sanitized --seconds 15 --pause 15)
  endif()
  foreach(part IN ITEMS test life_test fuzz faults_test restart_test storm)
    if(mortar_python)
      add_test(NAME mortar.server_${part} COMMAND ${mortar_python} ${CMAKE_CURRENT_LIST_DIR}/server_${part}.py $<TARGET_FILE:mortar_command>
                                                  ${CMAKE_CURRENT_LIST_DIR}/data/models ${CMAKE_CURRENT_LIST_DIR}/data/templates ${words_of_${part}})
      set_tests_properties(mortar.server_${part} PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
    endif()
  endforeach()
  if(mortar_python AND NOT TESSERA_SANITIZE)  # which the driver that does nothing is not built for
    include(${PROJECT_SOURCE_DIR}/bench/host/null_driver.cmake)
    add_test(NAME mortar.warm_up COMMAND ${mortar_python} ${CMAKE_CURRENT_LIST_DIR}/warm_up_test.py $<TARGET_FILE:mortar_command>
                                         ${CMAKE_CURRENT_LIST_DIR}/data/models ${CMAKE_CURRENT_LIST_DIR}/data/templates $<TARGET_FILE:null_driver>)
    set_tests_properties(mortar.warm_up PROPERTIES LABELS "tools+tileiras" SKIP_RETURN_CODE 77)
  endif()
  # One model in several processes, which mpirun starts and the test kills.
  if(mortar_python)
    if(TESSERA_MPIEXEC)
      add_test(NAME mortar.processes COMMAND ${mortar_python} ${CMAKE_CURRENT_LIST_DIR}/processes_test.py $<TARGET_FILE:mortar_command>
                                             ${CMAKE_CURRENT_LIST_DIR}/data/models ${CMAKE_CURRENT_LIST_DIR}/data/templates
                                             ${TESSERA_MPIEXEC} $<TARGET_FILE:mpi_program_main>)
      set_tests_properties(mortar.processes PROPERTIES LABELS mpi TIMEOUT 1500 PROCESSORS 2)
    else()
      add_test(NAME mortar.processes COMMAND ${CMAKE_COMMAND} -E echo "skipped: mpirun was not found (apt-get install libopenmpi-dev openmpi-bin)")
      set_tests_properties(mortar.processes PROPERTIES LABELS mpi SKIP_REGULAR_EXPRESSION "mpirun was not found")
    endif()
  endif()
  # The page in Chromium, and the files of mortar/deploy with the programs that read them: skipped where these are not installed.
  foreach(part IN ITEMS page proxy)
    if(mortar_python)
      add_test(NAME mortar.${part} COMMAND ${mortar_python} ${CMAKE_CURRENT_LIST_DIR}/${part}_test.py $<TARGET_FILE:mortar_command>
                                           ${CMAKE_CURRENT_LIST_DIR}/data/models ${CMAKE_CURRENT_LIST_DIR}/data/templates ${CMAKE_CURRENT_BINARY_DIR}/mortar-${part})
      set_tests_properties(mortar.${part} PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
    endif()
  endforeach()
endif()

if(TARGET mortar_engine)
  file(GLOB mortar_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/engine/*_test.cpp ${CMAKE_CURRENT_LIST_DIR}/model/*_test.cpp)
  tessera_mortar_test(test_mortar LINK mortar_engine fake_cuda_driver SOURCES ${mortar_tests})
  target_include_directories(test_mortar PRIVATE ${PROJECT_SOURCE_DIR}/src)
  file(GLOB mortar_parallel_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/parallel/*_test.cpp)
  tessera_mortar_test(test_mortar_parallel LINK mortar_engine SOURCES ${mortar_parallel_tests})
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  foreach(part IN ITEMS "" _single_user)
    add_test(NAME mortar.command${part} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/cli${part}_test.py
                                                $<TARGET_FILE:mortar_command> ${CMAKE_CURRENT_LIST_DIR}/data/models)
    set_tests_properties(mortar.command${part} PROPERTIES LABELS unit)
  endforeach()
  get_target_property(mortar_definitions mortar_command COMPILE_DEFINITIONS)
  set(lines_of_chat plain)
  if("MORTAR_LIBEDIT" IN_LIST mortar_definitions)
    set(lines_of_chat editor)
  endif()
  add_test(NAME mortar.chat COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/chat_test.py $<TARGET_FILE:mortar_command>
                                    ${CMAKE_CURRENT_LIST_DIR}/data/models ${lines_of_chat})
  set_tests_properties(mortar.chat PROPERTIES LABELS unit)
  add_test(NAME mortar.sizing COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/mortar/sizing.py $<TARGET_FILE:mortar_command> --check)
  set_tests_properties(mortar.sizing PROPERTIES LABELS tools)
  if(TARGET mortar_http)
    add_test(NAME mortar.load_command COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/load/load_command_test.py
                                              $<TARGET_FILE:mortar_command>)
    set_tests_properties(mortar.load_command PROPERTIES LABELS unit)
  endif()
  if(TARGET tessera_command)  # the kernels of a dense model through NVIDIA's assembler
    add_test(NAME mortar.build COMMAND tessera_command build -o ${CMAKE_CURRENT_BINARY_DIR}/mortar.tessera --gpu sm_90 --
             $<TARGET_FILE:mortar_command> generate ${CMAKE_CURRENT_LIST_DIR}/data/models/dense-tied --device cpu
             --prompt-ids 1,2,3 --temperature 1 --presence-penalty 1 --logprobs 2 --max-tokens 2 --max-context 256)
    set_tests_properties(mortar.build PROPERTIES LABELS "tools+tileiras" SKIP_REGULAR_EXPRESSION "was not found: run tessera get-tileiras")
  endif()
  add_test(NAME mortar.bench_script COMMAND ${PROJECT_SOURCE_DIR}/bench/mortar/run.sh $<TARGET_FILE:mortar_command>
           ${CMAKE_CURRENT_BINARY_DIR}/mortar-bench)
  set_tests_properties(mortar.bench_script PROPERTIES LABELS tools ENVIRONMENT MORTAR_BENCH_DEVICE=cpu
                       PASS_REGULAR_EXPRESSION "dense-tied +pp64 .* tok/s.*dense-tied +tg16@64 b4")
endif()
