# Tuning records say which version made them.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/jit/tuning_record.cpp TARGET_DIRECTORY ${target}
                            PROPERTIES COMPILE_DEFINITIONS TESSERA_VERSION="${PROJECT_VERSION}")
