# The driver that does nothing (null_driver.cpp): programs that are linked with it find it where they ask for
# libcuda.so.1.
include_guard(GLOBAL)
add_library(null_driver SHARED ${CMAKE_CURRENT_LIST_DIR}/null_driver.cpp)
target_link_libraries(null_driver PRIVATE tessera_flags)
set_target_properties(null_driver PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
