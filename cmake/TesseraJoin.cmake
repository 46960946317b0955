# Several source files of a target compiled as one (CMake's UNITY_BUILD): a third to two thirds less work where everything
# is compiled, because files share what they include and instantiate. An edit recompiles the files of its batch, so a build
# that is made once, as CI's and the demo's, turns this on and an everyday build does not.
option(TESSERA_JOIN_SOURCES "Compile several source files of a target as one: faster where all are compiled" OFF)

# tessera_join(<target> [ALONE <file>...]): joins the target's files but those that define names which others of the target
# define or find elsewhere. Files with compile options of their own stand alone too.
function(tessera_join target)
  if(NOT TESSERA_JOIN_SOURCES)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "ALONE" ${ARGN})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  # g++ warns of members whose types are local to a file where that file is included.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  if(ARG_ALONE)
    set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
