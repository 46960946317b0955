# Three projects that use Tessera as a user's would, each configured, built and run on its own:
#   find_package   against an installed tree          subdirectory   by FetchContent (add_subdirectory underneath)
#   ir_only        installed tree, links tessera::ir alone
function(tessera_consumer_test name expect)
  set(launcher "")
  if(TESSERA_CCACHE)
    set(launcher ${TESSERA_CCACHE})  # alone: these projects precompile no headers
  endif()
  add_test(NAME consumer.${name}
           COMMAND ${CMAKE_COMMAND} -DNAME=${name} "-DEXPECT=${expect}" -DSOURCE=${PROJECT_SOURCE_DIR} -DBUILD=${PROJECT_BINARY_DIR}
                   -DGENERATOR=${CMAKE_GENERATOR} -DCOMPILER=${CMAKE_CXX_COMPILER} -DLAUNCHER=${launcher}
                   -DBUILD_TYPE=${CMAKE_BUILD_TYPE} "-DDEV_FLAGS=${CMAKE_CXX_FLAGS_DEV}" -DJOIN=${TESSERA_JOIN_SOURCES}
                   -P ${PROJECT_SOURCE_DIR}/tests/consumer/run.cmake)
  # The projects share the installed tree and the machine, so they run one at a time.
  set_tests_properties(consumer.${name} PROPERTIES LABELS consumer TIMEOUT 1500 RESOURCE_LOCK tessera_installed_tree)
endfunction()

if(NOT TESSERA_SANITIZE AND TESSERA_INSTALL)
  tessera_consumer_test(find_package "Tensor<f32, 2> .1000, 1000. on")
  tessera_consumer_test(ir_only "consumer: ok")
  tessera_consumer_test(subdirectory "Tensor<f32, 2> .1000, 1000. on")
endif()

add_test(NAME consumer.install_preset
         COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DWORK=${CMAKE_CURRENT_BINARY_DIR}/install_preset
                 -DGENERATOR=${CMAKE_GENERATOR} -DCOMPILER=${CMAKE_CXX_COMPILER}
                 -P ${CMAKE_CURRENT_LIST_DIR}/install_preset.cmake)
set_tests_properties(consumer.install_preset PROPERTIES LABELS consumer)
