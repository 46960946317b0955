# What CPack makes of the install components: a .deb for each, and one archive of all. scripts/package.sh runs it.
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each .deb has its own
set(CPACK_PACKAGE_VENDOR "the authors of Tessera")
set(CPACK_PACKAGE_CONTACT "the authors of Tessera <maintainers@tessera.example>")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_GENERATOR DEB TXZ)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/before_packing.cmake)
get_cmake_property(CPACK_COMPONENTS_ALL COMPONENTS)
list(REMOVE_ITEM CPACK_COMPONENTS_ALL Unspecified)

# -- the archive: everything under one folder
set(CPACK_INCLUDE_TOPLEVEL_DIRECTORY ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_ARCHIVE_FILE_NAME tessera-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_FILE_NAME ${CPACK_ARCHIVE_FILE_NAME})

# -- Debian
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")  # otherwise CPack asks dpkg for this machine's
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

# debian_package(<component> <summary> <description> [DEPENDS ...] [RECOMMENDS ...] [SECTION ...] [PROGRAM]): PROGRAM asks
# dpkg-shlibdeps what it needs.
macro(debian_package component summary description)
  cmake_parse_arguments(ARG "PROGRAM" "DEPENDS;RECOMMENDS;SECTION" "" ${ARGN})
  string(TOUPPER ${component} name)
  set(CPACK_COMPONENT_${name}_DESCRIPTION "${summary}\n${description}")
  set(CPACK_DEBIAN_${name}_DESCRIPTION "${summary}\n${description}")
  set(CPACK_DEBIAN_${name}_PACKAGE_NAME ${component})
  set(CPACK_DEBIAN_${name}_PACKAGE_DEPENDS "${ARG_DEPENDS}")
  set(CPACK_DEBIAN_${name}_PACKAGE_RECOMMENDS "${ARG_RECOMMENDS}")
  if(ARG_SECTION)
    set(CPACK_DEBIAN_${name}_PACKAGE_SECTION ${ARG_SECTION})
  endif()
  if(ARG_PROGRAM)
    set(CPACK_DEBIAN_${name}_PACKAGE_SHLIBDEPS ON)
  endif()
endmacro()

set(same "(= ${PROJECT_VERSION})")
debian_package(libtessera-dev "GPU kernels as ordinary C++ functions over tiles"
  "Headers, static libraries and the CMake package tessera. A kernel is a C++
function over tiles; it is recorded at run time, compiled by NVIDIA's assembler
for the GPU, or evaluated on the CPU. Needs g++ 12 or clang 16, or newer."
  DEPENDS "libc6-dev, libstdc++-12-dev | libstdc++-13-dev | libstdc++-14-dev" RECOMMENDS "tessera ${same}, cmake (>= 3.25), g++")
debian_package(tessera "kernels of Tessera: compile, explain, measure, tune"
  "The command tessera: what this machine has for running kernels, how kernels
are compiled, how fast they are, compiling ahead of time, and fetching
NVIDIA's assembler."
  SECTION devel PROGRAM)
debian_package(libmortar-dev "inference engine for Qwen3 and Llama 3, as a library"
  "Headers, static libraries and the CMake package mortar: mortar::mortar, the
engine, and mortar::server, its server with OpenAI's routes."
  DEPENDS "libtessera-dev ${same}" RECOMMENDS "libssl-dev (>= 3.0), cmake (>= 3.25), g++")
debian_package(mortar "inference engine for Qwen3 and Llama 3"
  "The command mortar: answers, conversations, a server with OpenAI's routes,
measurements. Runs on NVIDIA GPUs and on the CPU."
  SECTION science RECOMMENDS "tessera ${same}" PROGRAM)
include(CPack)
