# A precompiled header for the tests: the standard library's headers and GoogleTest's are more than half of what an average
# test parses. Only headers from outside the project are in it, so that an edit of the project's headers recompiles no more
# than without. A source file still has to include what it uses: tests/structure/includes.py checks that.
option(TESSERA_PRECOMPILE "Precompile the headers of the standard library and of GoogleTest for the tests" OFF)

# tessera_precompile(<target>): all targets share the header, which the first of them makes, so all must be programs with
# the same options that link GoogleTest (-Winvalid-pch warns of others). CMake builds the first target before it compiles a
# file of another: the first should need little.
function(tessera_precompile target)
  if(NOT TESSERA_PRECOMPILE)
    return()
  endif()
  get_property(first GLOBAL PROPERTY TESSERA_PRECOMPILED)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY TESSERA_PRECOMPILED ${target})
    target_precompile_headers(
      ${target} PRIVATE <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstdio>
      <cstdlib> <cstring> <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set>
      <span> <sstream> <string> <thread> <tuple> <unordered_map> <unordered_set> <variant> <vector> <gmock/gmock.h>
      <gtest/gtest.h>)
  endif()
  # What ccache needs to keep files that use a precompiled header (its manual, "Precompiled headers").
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
                         "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()
