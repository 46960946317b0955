# Install rules, and the packages that find_package(tessera) and find_package(mortar) read. One component for each Debian
# package (docs/packaging.md): libtessera-dev, tessera, libmortar-dev, mortar.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake)
set(packaging ${PROJECT_SOURCE_DIR}/packaging)

# install_cmake_package(<name> <component>): the files that find_package(<name>) reads, besides those of targets.
function(install_cmake_package name component)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/${name}-config.cmake.in ${PROJECT_BINARY_DIR}/${name}-config.cmake
                                INSTALL_DESTINATION ${package_dir}/${name} PATH_VARS CMAKE_INSTALL_BINDIR)
  # Before 1.0 a new minor version may change the interface.
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/${name}-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/${name}-config.cmake ${PROJECT_BINARY_DIR}/${name}-config-version.cmake
          DESTINATION ${package_dir}/${name} COMPONENT ${component})
endfunction()

# install_command(<target> <name>): the program, its man page and its completions, as the component <name>.
function(install_command target name)
  if(TARGET ${target}_program)  # TESSERA_ONE_BINARY
    set(target ${target}_program)
  endif()
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${name})
  install(FILES ${packaging}/man/${name}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${name})
  install(FILES ${packaging}/completions/${name}.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME ${name} COMPONENT ${name})
  install(FILES ${packaging}/completions/_${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT ${name})
  install(FILES ${packaging}/completions/${name}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT ${name})
  install_documents(${name})
endfunction()

# install_documents(<component>)
function(install_documents component)
  install(FILES ${packaging}/copyright ${packaging}/changelog ${PROJECT_SOURCE_DIR}/CHANGELOG.md
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${component} COMPONENT ${component})
endfunction()

# -- Tessera
get_property(layers GLOBAL PROPERTY TESSERA_LAYERS)
install(TARGETS ${layers} tessera_all EXPORT tessera_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libtessera-dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libtessera-dev
        FILES_MATCHING PATTERN "*.hpp" PATTERN "*.def")
install(EXPORT tessera_targets NAMESPACE tessera:: DESTINATION ${package_dir}/tessera FILE tessera-targets.cmake
        COMPONENT libtessera-dev)
install_cmake_package(tessera libtessera-dev)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/TesseraKernels.cmake ${PROJECT_SOURCE_DIR}/cmake/TesseraTorch.cmake
        ${PROJECT_SOURCE_DIR}/cmake/torch_symbols.py
        DESTINATION ${package_dir}/tessera COMPONENT libtessera-dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libtessera-dev/examples
        COMPONENT libtessera-dev FILES_MATCHING PATTERN "[0-9][0-9]_*.cpp" PATTERN "*.hpp" PATTERN "*.png"
        PATTERN "torch_op" EXCLUDE)
install(FILES ${packaging}/examples/CMakeLists.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libtessera-dev/examples
        COMPONENT libtessera-dev)
install(FILES ${PROJECT_SOURCE_DIR}/docs/agents.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libtessera-dev RENAME AGENTS.md
        COMPONENT libtessera-dev)
install_documents(libtessera-dev)
if(TARGET tessera_command)
  install_command(tessera_command tessera)
endif()

# -- Mortar
if(TARGET mortar_engine)
  install(TARGETS mortar_text mortar_engine EXPORT mortar_targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libmortar-dev)
  install(EXPORT mortar_targets NAMESPACE mortar:: DESTINATION ${package_dir}/mortar FILE mortar-targets.cmake
          COMPONENT libmortar-dev)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/mortar/include/mortar DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libmortar-dev
          FILES_MATCHING PATTERN "*.hpp" PATTERN "*.def")
  install_cmake_package(mortar libmortar-dev)
  install_documents(libmortar-dev)
endif()
if(TARGET mortar_server)
  install(TARGETS mortar_http mortar_requests mortar_server EXPORT mortar_server_targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libmortar-dev)
  install(EXPORT mortar_server_targets NAMESPACE mortar:: DESTINATION ${package_dir}/mortar FILE mortar-server-targets.cmake
          COMPONENT libmortar-dev)
endif()
if(TARGET mortar_command)
  install_command(mortar_command mortar)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/mortar/deploy/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/mortar/examples COMPONENT mortar)
endif()

if(PROJECT_IS_TOP_LEVEL)
  include(TesseraPackages)
endif()
