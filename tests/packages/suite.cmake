# The packages: installed into an empty root, used there and removed; the archive, unpacked elsewhere; get-tileiras against an
# index on this machine; what pages tell to fetch. They pack what this tree has built.
if(TESSERA_SANITIZE OR NOT TESSERA_INSTALL OR NOT TARGET mortar_server OR NOT TARGET tessera_command)
  return()
endif()
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(work ${CMAKE_CURRENT_BINARY_DIR}/packages)

# packages_test(<name> <words of the command>...)
function(packages_test name)
  add_test(NAME packages.${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${ARGN})
  set_tests_properties(packages.${name} PROPERTIES LABELS packages TIMEOUT 600 SKIP_RETURN_CODE 77)
endfunction()

find_program(TESSERA_DPKG_DEB dpkg-deb)
find_program(TESSERA_DPKG_SHLIBDEPS dpkg-shlibdeps)
if(TESSERA_DPKG_DEB AND TESSERA_DPKG_SHLIBDEPS)
  packages_test(debs debs.py --work ${work} --build ${PROJECT_BINARY_DIR} --cmake=-DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
                --cmake=-DCMAKE_CXX_COMPILER_LAUNCHER=${TESSERA_CCACHE} --cmake=-DCMAKE_CXX_FLAGS=-O0 ${work}/debs)
else()
  message(STATUS "the test packages.debs is left out: it needs dpkg-deb and dpkg-shlibdeps (apt-get install dpkg-dev)")
endif()
packages_test(archive archive.py --work ${work} --build ${PROJECT_BINARY_DIR} ${work}/archive/tessera-test.tar.zst)
packages_test(tileiras tileiras.py $<TARGET_FILE:tessera_command> get-tileiras)
packages_test(instructions instructions.py ${work} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER})
