# GoogleTest as a package, as a prefix that was carried to a machine without packages (scripts/gpu-check.sh --prefix), or
# as the sources of Debian's package googletest, which is what builds for another processor use.
set(TESSERA_GTEST_PREFIX "" CACHE PATH "Folder with include/gtest and lib/libgtest.a, where GoogleTest has no CMake package")
find_package(GTest QUIET)
if(NOT TARGET GTest::gtest_main AND EXISTS ${TESSERA_GTEST_PREFIX}/lib/libgtest_main.a)
  find_package(Threads REQUIRED)
  add_library(GTest::gtest_main INTERFACE IMPORTED)
  target_include_directories(GTest::gtest_main INTERFACE ${TESSERA_GTEST_PREFIX}/include)
  target_link_libraries(GTest::gtest_main INTERFACE ${TESSERA_GTEST_PREFIX}/lib/libgtest_main.a
                                                    ${TESSERA_GTEST_PREFIX}/lib/libgtest.a Threads::Threads)
elseif(NOT TARGET GTest::gtest_main AND EXISTS /usr/src/googletest/CMakeLists.txt)
  set(BUILD_GMOCK ON CACHE BOOL "" FORCE)
  set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
  add_subdirectory(/usr/src/googletest ${CMAKE_CURRENT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  foreach(library IN ITEMS gtest gtest_main gmock)
    if(NOT TARGET GTest::${library})  # GoogleTest 1.12 and newer have these names themselves
      add_library(GTest::${library} ALIAS ${library})
    endif()
  endforeach()
endif()
