# Tuning records say which version made them.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/jit/tuning/tuning_record.cpp TARGET_DIRECTORY ${target}
                            PROPERTIES COMPILE_DEFINITIONS TESSERA_VERSION="${PROJECT_VERSION}")
# Notes in the disk cache are named by the build that made them (src/jit/store/build_id.hpp): compilers whose linkers are not
# told to hash what they link would keep none.
if(sources)
  target_link_options(${target} INTERFACE LINKER:--build-id=sha1)
endif()
