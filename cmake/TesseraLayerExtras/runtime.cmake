# Streams run on threads; the CUDA driver is found with dlopen.
find_package(Threads REQUIRED GLOBAL)
target_link_libraries(${target} ${scope} Threads::Threads ${CMAKE_DL_LIBS})
