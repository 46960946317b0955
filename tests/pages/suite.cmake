# The programs of docs/quickstart.md are built and run, and the outputs that it and docs/cookbook.md show are compared with the
# real ones. Needs the examples and the tessera command. What docs/ides.md says is followed without them.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME pages.ides COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_LIST_DIR}/ides.py ${CMAKE_CURRENT_BINARY_DIR}/ides ${CMAKE_CXX_COMPILER})
  set_tests_properties(pages.ides PROPERTIES LABELS guide TIMEOUT 600)
endif()
if(NOT Python3_FOUND OR NOT TARGET tessera_command OR NOT TARGET example_13_blur)
  return()
endif()
set(pages ${CMAKE_CURRENT_LIST_DIR}/pages.py)
set(quickstart ${PROJECT_SOURCE_DIR}/docs/quickstart.md)
set(programs ${CMAKE_CURRENT_BINARY_DIR}/quickstart)
# Which programs there are is read while configuring; a changed page configures again.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${quickstart})
execute_process(COMMAND ${Python3_EXECUTABLE} ${pages} extract ${quickstart} ${programs} OUTPUT_VARIABLE numbers
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[0-9]+" numbers "${numbers}")
foreach(number IN LISTS numbers)
  add_executable(quickstart_${number} ${programs}/${number}/app.cpp)
  set_target_properties(quickstart_${number} PROPERTIES OUTPUT_NAME app RUNTIME_OUTPUT_DIRECTORY ${programs}/${number})
  target_link_libraries(quickstart_${number} PRIVATE tessera_flags tessera::tessera)
endforeach()

add_test(NAME pages.selftest COMMAND ${Python3_EXECUTABLE} ${pages} --selftest)
set_tests_properties(pages.selftest PROPERTIES LABELS structure)
foreach(page quickstart cookbook)
  add_test(NAME pages.${page} COMMAND ${Python3_EXECUTABLE} ${pages} check ${PROJECT_SOURCE_DIR}/docs/${page}.md --programs ${programs}
           --examples $<TARGET_FILE_DIR:example_01_hello> --tessera $<TARGET_FILE:tessera_command>)
  set_tests_properties(pages.${page} PROPERTIES LABELS guide TIMEOUT 600 WORKING_DIRECTORY ${CMAKE_BINARY_DIR})  # to which a compiler cache makes file names relative
endforeach()
