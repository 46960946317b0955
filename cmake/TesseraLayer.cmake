# One target per folder of src, and the two targets that users link.
include(GNUInstallDirs)

# tessera_layer(<folder> [DEPENDS <folder>...]): the sources of src/<folder> as one target, tessera_<folder with _>.
# A folder whose sources do not exist yet becomes an interface target, so that the layering can be stated before the code.
# cmake/TesseraLayerExtras/<folder with _>.cmake, where it exists, is included at the end with `target` set: the place for
# what only one layer needs (flags of one source file, a system library).
function(tessera_layer folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  set(target tessera_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:tessera_flags>)
    # Builds of the type Dev (CMakePresets.json) optimise the library, which the tests wait for, and not what stands on it:
    # optimising that took most of a build's time.
    target_compile_options(${target} PRIVATE $<$<CONFIG:Dev>:-O1>)
    # Private headers of a layer are included as "folder/file.hpp".
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_features(${target} PUBLIC cxx_std_20)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  foreach(dep IN LISTS ARG_DEPENDS)
    string(REPLACE "/" "_" dep ${dep})
    target_link_libraries(${target} ${scope} tessera_${dep})
  endforeach()
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/tessera/${folder}/*.hpp)
  foreach(dep IN LISTS ARG_DEPENDS)
    string(REPLACE "/" "_" dep ${dep})
    get_target_property(of_dep tessera_${dep} TESSERA_HEADERS)
    list(APPEND headers ${of_dep})
  endforeach()
  list(REMOVE_DUPLICATES headers)
  set_target_properties(${target} PROPERTIES TESSERA_HEADERS "${headers}")  # that its sources may include
  if(sources)
    tessera_precompile_layer(${target} ${headers})
    tessera_join(${target} BATCH 24)  # small files, no kernels
  endif()
  # Installed and exported as tessera::<name>.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY TESSERA_LAYERS ${target})
  include(${PROJECT_SOURCE_DIR}/cmake/TesseraLayerExtras/${name}.cmake OPTIONAL)
endfunction()

# tessera::ir (Tile IR alone) and tessera::tessera (everything), in the tree and installed.
function(tessera_umbrella)
  tessera_precompile_layers()
  add_library(tessera_all INTERFACE)
  set_target_properties(tessera_all PROPERTIES EXPORT_NAME tessera)
  target_link_libraries(tessera_all INTERFACE tessera_host tessera_kernels tessera_mesh)
  add_library(tessera::tessera ALIAS tessera_all)
  add_library(tessera::ir ALIAS tessera_ir)
  add_library(tessera::kernels ALIAS tessera_kernels)
  add_library(tessera::measure ALIAS tessera_measure)
endfunction()

# tessera_command(<target> <name> <sources>...): a program. With the option TESSERA_ONE_BINARY it is its code as objects, whose
# main() is the function tessera_main_<name>(): python/CMakeLists.txt links them into the package's library, with a program
# <target>_program that calls it. That code runs once and is then optimised for size.
function(tessera_command target name)
  if(TESSERA_ONE_BINARY)
    add_library(${target} OBJECT ${ARGN})
    target_compile_definitions(${target} PRIVATE main=tessera_main_${name})
    tessera_small(${target})
  else()
    add_executable(${target} ${ARGN})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
  endif()
endfunction()

# tessera_small(<target>): with the option TESSERA_ONE_BINARY, code that the linker may leave out function by function, and
# optimised for size.
function(tessera_small target)
  if(TESSERA_ONE_BINARY)
    target_compile_options(${target} PRIVATE -Os -ffunction-sections -fdata-sections)
  endif()
endfunction()

# tessera_portable(<command>): with the option TESSERA_PORTABLE, what makes a program run on systems with an older libstdc++.
# libgcc stays outside: that of Debian 12 asks for a newer C library than anything else does (_dl_find_object, 2.35).
function(tessera_portable command)
  get_target_property(type ${command} TYPE)
  if(TESSERA_PORTABLE AND NOT type STREQUAL "OBJECT_LIBRARY")
    target_link_options(${command} PRIVATE -static-libstdc++)
    target_sources(${command} PRIVATE ${PROJECT_SOURCE_DIR}/packaging/portable/arc4random.cpp)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/packaging/portable/arc4random.cpp PROPERTIES
                                SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
