# Every page of the guide with code is a program (extract.py says how) that must compile, run and return 0.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
add_custom_target(guide_sources)  # for checks that read the programs and do not run them (scripts/lint.sh)
file(GLOB guide_pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/guide/[0-9]*.md)
foreach(page IN LISTS guide_pages)
  get_filename_component(name ${page} NAME_WE)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/guide_${name}.cpp)
  add_custom_command(OUTPUT ${source}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/extract.py ${page} ${source}
    DEPENDS ${page} ${CMAKE_CURRENT_LIST_DIR}/extract.py COMMENT "Guide page ${name}")
  add_executable(guide_${name} ${source})
  add_custom_target(guide_source_${name} DEPENDS ${source})
  add_dependencies(guide_sources guide_source_${name})
  target_link_libraries(guide_${name} PRIVATE tessera_flags tessera::tessera)
  add_test(NAME guide.${name} COMMAND guide_${name})
  set_tests_properties(guide.${name} PROPERTIES LABELS guide)
endforeach()
