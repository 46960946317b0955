# Install rules and the package that find_package(tessera) reads: targets tessera::tessera and tessera::ir.
include(CMakePackageConfigHelpers)

get_property(layers GLOBAL PROPERTY TESSERA_LAYERS)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)

install(TARGETS ${layers} tessera_all EXPORT tessera_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tessera)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT tessera
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.def")
if(TARGET tessera_command)
  install(TARGETS tessera_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tessera)
endif()
install(EXPORT tessera_targets NAMESPACE tessera:: DESTINATION ${package_dir} FILE tessera-targets.cmake COMPONENT tessera)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tessera-config.cmake.in
                              ${PROJECT_BINARY_DIR}/tessera-config.cmake INSTALL_DESTINATION ${package_dir}
                              PATH_VARS CMAKE_INSTALL_BINDIR)
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tessera-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tessera-config.cmake ${PROJECT_BINARY_DIR}/tessera-config-version.cmake
        ${PROJECT_SOURCE_DIR}/cmake/TesseraKernels.cmake ${PROJECT_SOURCE_DIR}/cmake/TesseraTorch.cmake
        ${PROJECT_SOURCE_DIR}/cmake/torch_symbols.py
        DESTINATION ${package_dir} COMPONENT tessera)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tessera)
