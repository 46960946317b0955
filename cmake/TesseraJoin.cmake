# Several source files of a target compiled as one (CMake's UNITY_BUILD): a third to two thirds less work where everything
# is compiled, because files share what they include and instantiate. An edit recompiles the files of its batch, so a build
# that is made once, as CI's and the demo's, turns this on and an everyday build does not.
option(TESSERA_JOIN_SOURCES "Compile several source files of a target as one: faster where all are compiled" OFF)
# Such a build is for running tests: line numbers for a debugger took a twelfth of its time. Reports of a sanitizer need them.
if(TESSERA_JOIN_SOURCES AND CMAKE_BUILD_TYPE STREQUAL "Dev" AND NOT TESSERA_SANITIZE)
  add_compile_options(-g0)
endif()

# tessera_join(<target> [BATCH <files>] [THIS_FILE]): joins the target's files, up to eight if no number is given. Files with
# compile options of their own stand alone. More than eight is for small files: eight that instantiate many
# kernels need up to 2 GB.
#   THIS_FILE   its files may define the same names, in `namespace THIS_FILE`: where a file is joined with others the macro is
#               a name of the file's own; elsewhere it is empty, so that the namespace is unnamed.
function(tessera_join target)
  cmake_parse_arguments(ARG "THIS_FILE" "BATCH" "" ${ARGN})
  if(ARG_THIS_FILE)
    target_compile_definitions(${target} PRIVATE THIS_FILE=)
  endif()
  if(NOT TESSERA_JOIN_SOURCES)
    return()
  endif()
  if(NOT ARG_BATCH)
    set(ARG_BATCH 8)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ARG_BATCH})
  if(ARG_THIS_FILE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_UNIQUE_ID THIS_FILE)
  endif()
  # g++ warns of members whose types are local to a file where that file is included.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
