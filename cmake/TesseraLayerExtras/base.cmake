# Profilers are attached with dlopen (NVTX).
target_link_libraries(${target} ${scope} ${CMAKE_DL_LIBS})
