# Builds and runs tests/consumer/${NAME} in the build folder. Fails with the failing command's output.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed (${result}): ${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(prefix ${BUILD}/consumer/prefix)
# Beside the build folder, so that relative paths, and with them the keys of ccache, are those of the tree's own build.
set(work ${BUILD}-consumer-${NAME})
if(NAME STREQUAL "subdirectory" AND JOIN)
  # This project's own joined files are not those of the tree's build, so ccache has none: unoptimised they take less.
  set(BUILD_TYPE Debug)
endif()
set(arguments -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
    -DCMAKE_BUILD_TYPE=${BUILD_TYPE} "-DCMAKE_CXX_FLAGS_DEV=${DEV_FLAGS}" -DCMAKE_CXX_FLAGS_DEBUG=-O0)

if(NAME STREQUAL "subdirectory")
  # The same warning flags as the tree's own build, so that ccache has the objects of files that are not joined.
  list(APPEND arguments -DFETCHCONTENT_SOURCE_DIR_TESSERA=${SOURCE} -DTESSERA_WERROR=ON -DTESSERA_JOIN_SOURCES=${JOIN})
else()
  file(REMOVE_RECURSE ${prefix})
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component libtessera-dev)
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component tessera)
  list(APPEND arguments -DCMAKE_PREFIX_PATH=${prefix})
endif()

file(REMOVE_RECURSE ${work})
step(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer/${NAME} -B ${work} ${arguments})
step(${CMAKE_COMMAND} --build ${work} --target consumer)
step(${work}/consumer)
if(NOT output MATCHES "${EXPECT}")
  message(FATAL_ERROR "the program's output does not match ${EXPECT}:\n${output}")
endif()
message(STATUS "${output}")
