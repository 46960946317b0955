# The loops of the CPU backend's tile primitives are compiled once per instruction set: src/codegen/cpu/prims/kernels/*.inl
# in a namespace of its own, with the flags of that set. prims.cpp chooses at run
# time, so the library runs on any machine of its architecture. Optimised in every configuration: an unoptimised
# evaluator is too slow to test with.
if(sources)
  # Exact semantics: no contraction of a * b + c and no value-changing optimisation. Only what traps and errno would
  # observe is given up, which stands in the way of vectorisation. Integers wrap: lanes that a selection discards may
  # overflow.
  set(prims_flags -O3 -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 reports its own AVX-512 intrinsics (undefined source of a masked operation).
    list(APPEND prims_flags -Wno-maybe-uninitialized -Wno-uninitialized -Wno-psabi)
  else()
    list(APPEND prims_flags -Wno-pass-failed)  # a loop that could not be vectorised is a fact, not a mistake
  endif()
  # The order of additions in a matrix product is free, and so is fusing them; products there are not elementwise
  # operations.
  set(prims_flags_matmul -ffp-contract=fast)
  set(prims_isas baseline)
  set(prims_flags_baseline "")
  # Races between threads do not depend on the instruction set: the thread sanitizer's build has the baseline only.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND NOT TESSERA_SANITIZE STREQUAL "thread")
    list(APPEND prims_isas avx2 avx512)
    set(prims_flags_baseline -msse4.2)
    set(prims_flags_avx2 -mavx2 -mfma -mf16c -mbmi2)
    set(prims_flags_avx512 ${prims_flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
    target_compile_definitions(${target} PRIVATE TESSERA_PRIMS_X86=1)
  endif()
  # What is compiled together, for each instruction set: half of a file's time is reading its headers. Serial chains and
  # calls of the C library gain nothing from vectors.
  set(prims_units matmul loops)
  set(prims_kernels_matmul matmul)
  set(prims_kernels_loops arithmetic widening elementary integer conversion reduction)
  set(prims_kernels_loops_baseline ${prims_kernels_loops} library scan)
  foreach(isa IN LISTS prims_isas)
    foreach(unit IN LISTS prims_units)
      set(kernels ${prims_kernels_${unit}})
      if(DEFINED prims_kernels_${unit}_${isa})
        set(kernels ${prims_kernels_${unit}_${isa}})
      endif()
      list(TRANSFORM kernels REPLACE "(.+)" "#include \"codegen/cpu/prims/kernels/\\1.inl\"\n")
      list(JOIN kernels "" includes)
      # At the same place whether or not Tessera is the top-level project: ccache tells files by their path.
      set(file ${PROJECT_BINARY_DIR}/prims/${unit}_${isa}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "#define TESSERA_PRIMS_ISA ${isa}\n${includes}")
      target_sources(${target} PRIVATE ${file})
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
                                  "${prims_flags};${prims_flags_${isa}};${prims_flags_${unit}}"
                                  SKIP_PRECOMPILE_HEADERS ON)
    endforeach()
  endforeach()
  # What calls the loops: a call on one element is index arithmetic. What fills operands for them: below -O2, g++ does not
  # clear the upper halves of vector registers, which makes the code after it slow.
  foreach(file IN ITEMS prims/walk prims/reduce fill)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/codegen/cpu/${file}.cpp PROPERTIES
                                COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
  # The evaluator's own loops over elements: copies, fills, loads and stores. The build of the demo optimises other files
  # less. (g++ crashes where a precompiled header was made with another level.)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    foreach(file IN ITEMS copy pointer_instr view_instr)
      set_source_files_properties(${PROJECT_SOURCE_DIR}/src/codegen/cpu/${file}.cpp PROPERTIES
                                  COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
    endforeach()
  endif()
endif()
