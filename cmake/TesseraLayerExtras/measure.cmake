# Unoptimised probes would show a slow compiler, not the machine. Vectors wider than the baseline's never leave a
# function.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/measure/probes.cpp PROPERTIES COMPILE_OPTIONS
                            "-O3;-ffp-contract=fast;-Wno-psabi"
                            SKIP_PRECOMPILE_HEADERS ON)
