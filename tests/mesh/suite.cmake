# What test_mesh opens and starts, in its folder: fakes of NCCL's library, and a process that is watched.
function(tessera_fake_nccl name)
  add_library(${name} SHARED ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/fake_nccl.cpp)
  target_link_libraries(${name} PRIVATE tessera_flags)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:test_mesh>)
  add_dependencies(test_mesh ${name})
endfunction()
tessera_fake_nccl(fake_nccl)
tessera_fake_nccl(fake_nccl_old FAKE_NCCL_VERSION=22605)
tessera_fake_nccl(fake_nccl_incomplete FAKE_NCCL_INCOMPLETE)

add_executable(watch_main ${CMAKE_CURRENT_LIST_DIR}/watch_main.cpp)
target_link_libraries(watch_main PRIVATE tessera_flags tessera_mesh)
target_include_directories(watch_main PRIVATE ${PROJECT_SOURCE_DIR}/src)
add_dependencies(test_mesh watch_main)

# Processes that mpirun starts: the exchange over MPI.
if(NOT TESSERA_MPIEXEC)
  add_test(NAME mesh.mpi COMMAND ${CMAKE_COMMAND} -E echo "skipped: mpirun was not found (apt-get install libopenmpi-dev openmpi-bin)")
  set_tests_properties(mesh.mpi PROPERTIES LABELS mpi SKIP_REGULAR_EXPRESSION "mpirun was not found")
  return()
endif()
# mpirun rejects the superuser otherwise, who runs CI's containers. Open MPI keeps memory that it never frees.
set(tessera_mpi_environment "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;ASAN_OPTIONS=detect_leaks=0")
add_executable(mpi_exchange_main ${CMAKE_CURRENT_LIST_DIR}/mpi_exchange_main.cpp)
target_link_libraries(mpi_exchange_main PRIVATE tessera_flags tessera_mesh MPI::MPI_CXX)
target_include_directories(mpi_exchange_main PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_definitions(mpi_exchange_main PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
foreach(mode data own missing abort)
  foreach(ranks 2 4)
    add_test(NAME mesh.mpi.${mode}.${ranks}
             COMMAND ${TESSERA_MPIEXEC} --oversubscribe -n ${ranks} $<TARGET_FILE:mpi_exchange_main> ${mode})
    set_tests_properties(mesh.mpi.${mode}.${ranks} PROPERTIES LABELS mpi TIMEOUT 600 PROCESSORS 2
                         ENVIRONMENT "${tessera_mpi_environment}")
  endforeach()
endforeach()

# A user's program over the mesh of these processes.
add_executable(mpi_program_main ${CMAKE_CURRENT_LIST_DIR}/mpi_program_main.cpp)
target_link_libraries(mpi_program_main PRIVATE tessera_flags tessera::tessera)
foreach(run program.2 program.4 grid.4)
  string(REPLACE "." ";" words ${run})
  list(GET words 0 mode)
  list(GET words 1 ranks)
  add_test(NAME mesh.mpi.${run} COMMAND ${TESSERA_MPIEXEC} --oversubscribe -n ${ranks} $<TARGET_FILE:mpi_program_main> ${mode})
  set_tests_properties(mesh.mpi.${run} PROPERTIES LABELS mpi TIMEOUT 600 PROCESSORS 2
                       ENVIRONMENT "TESSERA_DEVICE=cpu;${tessera_mpi_environment}")
endforeach()
