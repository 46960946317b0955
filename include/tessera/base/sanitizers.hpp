// TESSERA_ASAN, TESSERA_TSAN: 1 where this is compiled with the address or thread sanitizer, else 0. g++ defines a
// macro of its own (GCC manual, "Common Predefined Macros"), clang 16 answers __has_feature.
#pragma once

#if defined(__has_feature)
#define TESSERA_HAS_FEATURE(x) __has_feature(x)
#else
#define TESSERA_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || TESSERA_HAS_FEATURE(address_sanitizer)
#define TESSERA_ASAN 1
#else
#define TESSERA_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || TESSERA_HAS_FEATURE(thread_sanitizer)
#define TESSERA_TSAN 1
#else
#define TESSERA_TSAN 0
#endif
