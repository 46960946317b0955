# Random programs of the kernel language, run in every way that must agree (docs/random_programs.md).
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
add_executable(test_generate ${sources})
target_link_libraries(test_generate PRIVATE tessera_flags tessera::tessera)
target_include_directories(test_generate PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
