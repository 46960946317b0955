# tessera_add_kernels(<target> [GPUS sm_90 ...] [ARGUMENTS ...]): compiles the kernels of a program ahead of time. After
# linking, the program is run once on the CPU with ARGUMENTS (choose some that launch every kernel with the properties that
# matter: small sizes with the divisibility of the real ones), and its kernels are compiled for GPUS (default: sm_90) into
# <program>.tessera beside it. Where that file lies beside the program, it needs nothing but the driver. Needs NVIDIA's
# assembler while building: tessera get-tileiras.
function(tessera_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "GPUS;ARGUMENTS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tessera_add_kernels: unknown arguments ${ARG_UNPARSED_ARGUMENTS}; expected GPUS and ARGUMENTS")
  endif()
  if(NOT ARG_GPUS)
    set(ARG_GPUS sm_90)
  endif()
  list(JOIN ARG_GPUS "," gpus)
  if(TARGET tessera_command AND NOT TESSERA_ONE_BINARY)
    set(command $<TARGET_FILE:tessera_command>)
    add_dependencies(${target} tessera_command)
  else()
    find_program(TESSERA_COMMAND tessera HINTS "${TESSERA_COMMAND_DIR}" REQUIRED)
    set(command ${TESSERA_COMMAND})
  endif()
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND ${command} build -o $<TARGET_FILE:${target}>.tessera --gpu ${gpus} -- $<TARGET_FILE:${target}> ${ARG_ARGUMENTS}
    COMMENT "Compiling the kernels of ${target} for ${gpus}")
endfunction()
