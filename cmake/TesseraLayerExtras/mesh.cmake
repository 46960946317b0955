# The check of the links between ranks compares versions.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/mesh/check_links.cpp TARGET_DIRECTORY ${target}
                            PROPERTIES COMPILE_DEFINITIONS TESSERA_VERSION="${PROJECT_VERSION}")
# MPI is an option (TESSERA_MPI). Only programs that refer to the exchange over MPI need its library.
if(sources AND NOT TESSERA_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI COMPONENTS CXX QUIET)
  if(MPI_CXX_FOUND)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/mesh/mpi_exchange.cpp TARGET_DIRECTORY ${target} PROPERTIES
                                COMPILE_DEFINITIONS "TESSERA_HAS_MPI;OMPI_SKIP_MPICXX;MPICH_SKIP_MPICXX"
                                INCLUDE_DIRECTORIES "${MPI_CXX_INCLUDE_DIRS}"
                                SKIP_PRECOMPILE_HEADERS ON)
    # One item, so that CMake does not move its parts.
    list(JOIN MPI_CXX_LIBRARIES "," libraries)
    target_link_libraries(${target} ${scope} "-Wl,--push-state,--as-needed,${libraries},--pop-state")
    set(TESSERA_MPIEXEC "${MPIEXEC_EXECUTABLE}" CACHE INTERNAL "mpirun, for the tests")
  elseif(TESSERA_MPI STREQUAL "ON")
    message(FATAL_ERROR "TESSERA_MPI is ON, but MPI was not found. Install it (apt-get install libopenmpi-dev openmpi-bin), "
                        "or set MPI_HOME.")
  endif()
endif()
