# CPack runs this between installing files into its staging folder and packing them. It does what Debian's policy asks for and
# `cmake --install` does not: manual pages and changelogs are compressed, static libraries have no debugging symbols.
file(GLOB_RECURSE archives ${CPACK_TEMPORARY_DIRECTORY}/*.a)
if(archives)
  execute_process(COMMAND strip --strip-debug --enable-deterministic-archives --remove-section=.comment --remove-section=.note ${archives}
                  COMMAND_ERROR_IS_FATAL ANY)
endif()
if(CPACK_GENERATOR STREQUAL "DEB")
  file(GLOB_RECURSE compressed ${CPACK_TEMPORARY_DIRECTORY}/*.1 ${CPACK_TEMPORARY_DIRECTORY}/changelog)
  if(compressed)
    execute_process(COMMAND gzip -9n ${compressed} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endif()
