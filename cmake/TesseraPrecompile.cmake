# Precompiled headers: more than half of what an average file here parses.
#   OFF       none: what projects that use Tessera get
#   PROGRAMS  for what is built on the library (tests, Mortar, benchmarks): headers from outside and, for what includes it
#             anyway, tessera.hpp. An edit of the project's headers recompiles no more than without.
#   ALL       also for the layers of the library, which share one with the public headers of all of them. For builds that are
#             made once: an edit of such a header recompiles every layer.
# A source file still has to include what it uses. tests/structure/includes.py checks that of the standard library's
# headers and that programs include Tessera's at all; a build that precompiles less finds the other headers.
set(TESSERA_PRECOMPILE OFF CACHE STRING "Precompiled headers: OFF, PROGRAMS (of what is built on the library) or ALL")
set_property(CACHE TESSERA_PRECOMPILE PROPERTY STRINGS OFF PROGRAMS ALL)
if(NOT TESSERA_PRECOMPILE MATCHES "^(OFF|PROGRAMS|ALL)$")
  message(FATAL_ERROR "TESSERA_PRECOMPILE is '${TESSERA_PRECOMPILE}'; it can be OFF, PROGRAMS or ALL.")
endif()
set(TESSERA_STANDARD_HEADERS
    <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstdio> <cstdlib> <cstring>
    <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream>
    <string> <thread> <tuple> <unordered_map> <unordered_set> <variant> <vector>)

# What ccache needs to keep files that use a precompiled header (its manual, "Precompiled headers").
function(tessera_keep_precompiled target)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
                         "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# tessera_precompile(<target> <header>...): the standard library's headers and those named, for a target of many files.
function(tessera_precompile target)
  if(NOT TESSERA_PRECOMPILE STREQUAL "OFF")
    target_precompile_headers(${target} PRIVATE ${TESSERA_STANDARD_HEADERS} ${ARGN})
    tessera_keep_precompiled(${target})
  endif()
endfunction()

# tessera_precompile_layer(<layer> <path of a header>...): with ALL, the layer uses the header of all layers, to which
# these are added. A layer has few translation units where files are joined: a header of its own took longer than they do.
function(tessera_precompile_layer target)
  if(TESSERA_PRECOMPILE STREQUAL "ALL")
    set_property(GLOBAL APPEND PROPERTY TESSERA_PRECOMPILED_LAYERS ${target})
    set_property(GLOBAL APPEND PROPERTY TESSERA_PRECOMPILED_HEADERS ${ARGN})
  endif()
endfunction()

# tessera_precompile_layers(): after the last layer.
function(tessera_precompile_layers)
  get_property(layers GLOBAL PROPERTY TESSERA_PRECOMPILED_LAYERS)
  if(NOT layers)
    return()
  endif()
  get_property(headers GLOBAL PROPERTY TESSERA_PRECOMPILED_HEADERS)
  list(REMOVE_DUPLICATES headers)
  # Named as in #include, without the path of this clone: that would be a part of the cache key (compile_with_ccache.sh).
  list(TRANSFORM headers REPLACE "^${PROJECT_SOURCE_DIR}/include/(.*)" "<\\1>")
  set(owner precompiled_for_layers)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${owner}.cpp CONTENT "\n")
  add_library(${owner} STATIC EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${owner}.cpp)
  target_link_libraries(${owner} PRIVATE tessera_flags)
  target_compile_features(${owner} PRIVATE cxx_std_20)
  target_compile_options(${owner} PRIVATE $<$<CONFIG:Dev>:-O1>)
  target_include_directories(${owner} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  tessera_precompile(${owner} ${headers})
  foreach(layer IN LISTS layers)
    target_precompile_headers(${layer} REUSE_FROM ${owner})
    tessera_keep_precompiled(${layer})
  endforeach()
endfunction()

# tessera_precompile_test(<target> [options]): for programs with GoogleTest, which share a header: one those that link
# tessera::tessera, one the others, and for other options than the folder's another. (-Winvalid-pch warns of a program that
# cannot use it.)
function(tessera_precompile_test target)
  if(TESSERA_PRECOMPILE STREQUAL "OFF")
    return()
  endif()
  set(owner precompiled_for_tests)
  set(headers <gtest/gtest.h>)
  set(libraries tessera_flags GTest::gtest_main)
  get_target_property(linked ${target} LINK_LIBRARIES)
  if("GTest::gmock" IN_LIST linked)
    string(APPEND owner _with_mocks)
    list(APPEND headers <gmock/gmock.h>)
    list(APPEND libraries GTest::gmock)
  endif()
  if("tessera::tessera" IN_LIST linked)
    string(APPEND owner _of_users)
    list(APPEND headers <tessera/tessera.hpp>)
    list(APPEND libraries tessera::tessera)
  endif()
  string(MAKE_C_IDENTIFIER "${owner}${ARGN}" owner)
  if(NOT TARGET ${owner})  # a program of nothing else, so that no test waits for another to be linked
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${owner}.cpp CONTENT "int main() {}\n")
    add_executable(${owner} EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${owner}.cpp)
    target_link_libraries(${owner} PRIVATE ${libraries})
    target_compile_options(${owner} PRIVATE ${ARGN})
    tessera_precompile(${owner} ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
  tessera_keep_precompiled(${target})
endfunction()

# tessera_precompile_example(<target>): programs of one file each, which share the precompiled header of the first.
function(tessera_precompile_example target)
  if(TESSERA_PRECOMPILE STREQUAL "OFF")
    return()
  endif()
  get_property(owner GLOBAL PROPERTY TESSERA_PRECOMPILED_FOR_EXAMPLES)
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    tessera_keep_precompiled(${target})
  else()
    set_property(GLOBAL PROPERTY TESSERA_PRECOMPILED_FOR_EXAMPLES ${target})
    tessera_precompile(${target} <tessera/tessera.hpp>)
  endif()
endfunction()
