# Precompiled headers for builds of the whole project from nothing: the standard library's headers, and GoogleTest's for the
# tests, are more than half of what an average source file parses. Only headers from outside the project are in them, so
# that an edit of the project's headers recompiles no more than without. A source file still has to include what it uses:
# tests/structure/includes.py checks that, and builds without this option need it.
option(TESSERA_PRECOMPILE "Precompile the headers of the standard library and of GoogleTest" OFF)

set(tessera_standard_headers <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstdio>
    <cstdlib> <cstring> <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <random> <set> <span>
    <sstream> <string> <thread> <tuple> <unordered_map> <unordered_set> <variant> <vector>)

# tessera_precompile(<target> <set> [<header>...]): the targets of one set share a precompiled header, which the first of
# them makes from the standard headers and <header>...; all of a set must have the same options, the same position
# independence (programs are compiled with -fPIE, libraries with -fPIC) and the same definitions that those headers read.
# The compiler warns if they differ (-Winvalid-pch; an error in the presets, which all have TESSERA_WERROR). CMake builds the first target before it compiles a file of another, so
# the first should be one that needs little; a target with many files can have a set of its own.
function(tessera_precompile target set)
  if(NOT TESSERA_PRECOMPILE)
    return()
  endif()
  get_property(first GLOBAL PROPERTY TESSERA_PRECOMPILED_${set})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY TESSERA_PRECOMPILED_${set} ${target})
    target_precompile_headers(${target} PRIVATE ${tessera_standard_headers} ${ARGN})
  endif()
  # What ccache needs to keep files that use a precompiled header (its manual, "Precompiled headers").
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
                         "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()
