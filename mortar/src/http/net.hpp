// Settings of Boost.Asio. Included before its headers, by source files of this folder only.
#pragma once
#include <utility>  // awaitable.hpp of 1.74 uses std::exchange without it

#include "tessera/base/sanitizers.hpp"

#if TESSERA_TSAN  // g++ rejects fences there; the loop's mutex orders what threads share
#define BOOST_ASIO_DISABLE_FENCED_BLOCK 1
#endif
// Boost 1.74 knows coroutines of clang in its experimental form only, and has all else that they need.
#if defined(__clang__) && defined(__cpp_impl_coroutine)
#define BOOST_ASIO_HAS_CO_AWAIT 1
#define BOOST_ASIO_HAS_STD_COROUTINE 1
#endif
