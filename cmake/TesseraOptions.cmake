# Options of the build. All are prefixed TESSERA_; what is built by default depends on being the top-level project.
option(TESSERA_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(TESSERA_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(TESSERA_BUILD_TOOLS "Build the tessera command" ${PROJECT_IS_TOP_LEVEL})
option(TESSERA_BUILD_MORTAR "Build Mortar, the Qwen3 inference engine (needs nlohmann-json)" ${PROJECT_IS_TOP_LEVEL})
option(TESSERA_BUILD_SERVER "With Mortar, also its HTTP server and load generator (need Boost and OpenSSL; left out where they are missing)" ON)
option(TESSERA_BUILD_PYTHON "Build the library of the Python package (docs/python.md)" OFF)
option(TESSERA_ONE_BINARY "With the library of the Python package, make the code of the commands a part of it (docs/python.md)" OFF)
option(TESSERA_BUILD_BENCH "Build the benchmarks (needs Google Benchmark)" OFF)
option(TESSERA_BUILD_GPU_CHECK "Build what scripts/gpu-check.sh runs: the tests of tests/gpu and the benchmarks of bench/gpu" OFF)
option(TESSERA_BUILD_COMPARE "Build compare_bench, which scripts/gpu-compare.sh runs in two versions" OFF)
option(TESSERA_BUILD_GPU_TESTS "With the tests, also build those that need a GPU (they skip where there is none)" ON)
option(TESSERA_BUILD_KERNEL_TESTS "With the tests, also build those of the kernel library" ON)
option(TESSERA_BUILD_GUIDE "With the tests, also build the programs of the guide" ON)
option(TESSERA_BUILD_GENERALITY "With these, also build and test the kernels of bench/generality and bench/compare" ON)
option(TESSERA_BUILD_FUZZERS "With the tests, also the target `fuzzers`: what scripts/fuzz.sh runs (clang)" OFF)
option(TESSERA_INSTALL "Make install rules and the CMake package" ${PROJECT_IS_TOP_LEVEL})
option(TESSERA_PORTABLE "Link the commands with libstdc++ inside, for systems whose own is older" OFF)
option(TESSERA_WERROR "Treat warnings as errors (g++ 12 and clang 16; others only warn)" OFF)
set(TESSERA_MPI "AUTO" CACHE STRING "Meshes of processes that MPI starts: ON (needs libopenmpi-dev), OFF, or AUTO, where MPI is found")
set_property(CACHE TESSERA_MPI PROPERTY STRINGS AUTO ON OFF)
set(TESSERA_SANITIZE "" CACHE STRING "Sanitizers: empty, 'address,undefined' or 'thread'")
if(TESSERA_BUILD_TESTS)
  set(TESSERA_PYTHON "$ENV{TESSERA_PYTHON}" CACHE FILEPATH
      "Python with the packages cuda-tile and nvidia-cuda-tileiras, for comparisons with NVIDIA's tools (empty: the system's)")
  find_program(TESSERA_CLANG NAMES clang++-19 clang++-18 clang++-17 clang++-16
               DOC "clang++ that also runs the reject table, beside the build's own compiler")
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "Tessera needs g++ 12 or newer; found ${CMAKE_CXX_COMPILER_VERSION} (${CMAKE_CXX_COMPILER}). "
                      "Install one (apt-get install g++-12) and pass -DCMAKE_CXX_COMPILER=g++-12.")
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 16)
  message(FATAL_ERROR "Tessera needs clang 16 or newer; found ${CMAKE_CXX_COMPILER_VERSION} (${CMAKE_CXX_COMPILER}). "
                      "Install one (apt-get install clang-16) and pass -DCMAKE_CXX_COMPILER=clang++-16.")
endif()

set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  find_program(TESSERA_CCACHE ccache)
  if(TESSERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${PROJECT_SOURCE_DIR}/cmake/compile_with_ccache.sh ${TESSERA_CCACHE} ${PROJECT_SOURCE_DIR})
  endif()
  # Some two hundred programs are linked: mold takes a fifth of the time of GNU ld. (A compiler for another processor looks
  # for linkers among its own programs.)
  find_program(TESSERA_MOLD mold)
  if(TESSERA_MOLD AND NOT CMAKE_CROSSCOMPILING)
    add_link_options(-fuse-ld=mold)
  endif()
  # g++ collects its garbage from 512 MB on, not before, which takes a tenth of its time (GCC manual, --param).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(--param=ggc-min-heapsize=524288 --param=ggc-min-expand=100)
  endif()
endif()

# Warnings and sanitizers of our own targets (users of the library do not inherit them, except a sanitizer's link flags).
# Clang checks the typestate of owners (use after move) and dropped operations whether or not warnings are errors.
# Warnings become errors only with the compilers that the project is tested with: another version may warn of something new.
set(werror OFF)
if(TESSERA_WERROR AND ((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13) OR
                       (CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)))
  set(werror ON)
endif()
add_library(tessera_flags INTERFACE)
target_compile_features(tessera_flags INTERFACE cxx_std_20)
target_compile_options(tessera_flags INTERFACE -Wall -Wextra $<$<BOOL:${werror}>:-Werror>
                       $<$<CXX_COMPILER_ID:Clang>:-Werror=consumed> -Werror=unused-result)
# Results are the same on every processor: a * b + c is rounded twice unless it is written as std::fma. Compilers fuse it
# by default where the processor has fused multiply-add, as 64-bit ARM always has (GCC manual, -ffp-contract).
target_compile_options(tessera_flags INTERFACE -ffp-contract=off)
# g++ 12 warns of overlapping copies inside its own std::string at -O2 (GCC bug 105651, fixed in 13).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tessera_flags INTERFACE $<$<CONFIG:Release,RelWithDebInfo>:-Wno-restrict>)
endif()
define_property(TARGET PROPERTY TESSERA_FEW_CHECKS INHERITED
                BRIEF_DOCS "Leave out the checks of each pointer for null and alignment (of a folder: of its targets)")
if(TESSERA_SANITIZE)
  target_compile_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer)
  # A sanitizer's extra branches lead g++ to warn of paths that cannot be taken (GCC manual, -fsanitize); the same code is
  # built with these warnings, as errors, without a sanitizer.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(tessera_flags INTERFACE -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds
                           -Wno-maybe-uninitialized -Wno-restrict)
  endif()
  if(NOT TESSERA_SANITIZE STREQUAL "thread")
    target_compile_options(tessera_flags INTERFACE -fno-sanitize-recover=all
                           $<$<BOOL:$<TARGET_PROPERTY:TESSERA_FEW_CHECKS>>:-fno-sanitize=null,alignment>)
    # DLPack's deleters are functions of C: both sides declare the structure that is pointed at under a name of their own.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      target_compile_options(tessera_flags INTERFACE -fno-sanitize=function)
    endif()
  endif()
  target_link_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE})
  # Tests replace operator new. Clang's thread sanitizer allows it as a shared library alone, as g++'s always is.
  if(TESSERA_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.tsan-${CMAKE_SYSTEM_PROCESSOR}.so
                    OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    cmake_path(GET runtime PARENT_PATH runtime_folder)
    target_link_options(tessera_flags INTERFACE -shared-libsan LINKER:-rpath,${runtime_folder})
  endif()
endif()
