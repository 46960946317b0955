# Several source files of a target compiled as one (CMake's UNITY_BUILD): a third to two thirds less work where everything
# is compiled, because files share what they include and instantiate. An edit recompiles the files of its batch, so a build
# that is made once, as CI's and the demo's, turns this on and an everyday build does not.
option(TESSERA_JOIN_SOURCES "Compile several source files of a target as one: faster where all are compiled" OFF)

# tessera_join(<target> [BATCH <files>]): joins the target's files, up to eight if no number is given. Files with compile
# options of their own stand alone.
function(tessera_join target)
  if(NOT TESSERA_JOIN_SOURCES)
    return()
  endif()
  cmake_parse_arguments(ARG "" "BATCH" "" ${ARGN})
  if(NOT ARG_BATCH)
    set(ARG_BATCH 8)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ARG_BATCH})
  # g++ warns of members whose types are local to a file where that file is included.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# tessera_join_tests(<target> [BATCH <files>]): the same for a program of tests. Files that define the same names do so in
# `namespace THIS_FILE`: where a file is joined with others the macro is a name of the file's own, elsewhere it is empty.
function(tessera_join_tests target)
  target_compile_definitions(${target} PRIVATE THIS_FILE=)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_UNIQUE_ID THIS_FILE)
  tessera_join(${target} ${ARGN})
endfunction()
