// Typestate annotations for clang's consumed analysis (-Wconsumed): use after a tensor was given away becomes a
// compile-time diagnostic. Other compilers see nothing; there, and for what the analysis cannot follow, the run-time
// BorrowError remains.
#pragma once

#if defined(__clang__)
#define TESSERA_CONSUMABLE [[clang::consumable(unconsumed)]]     ///< a class that can be given away
#define TESSERA_LIVE [[clang::callable_when("unconsumed")]]      ///< a method of a tensor that is there
#define TESSERA_ARG_LIVE [[clang::param_typestate(unconsumed)]]  ///< a parameter that must be there
#define TESSERA_ARG_STAYS \
  [[clang::param_typestate(unconsumed), clang::return_typestate(unconsumed)]]  ///< and is there afterwards
#define TESSERA_RETURNS_LIVE [[clang::return_typestate(unconsumed)]]
#define TESSERA_RETURNS_EMPTY [[clang::return_typestate(consumed)]]
#define TESSERA_BECOMES_LIVE [[clang::set_typestate(unconsumed), clang::reinitializes]]
#else
#define TESSERA_CONSUMABLE
#define TESSERA_LIVE
#define TESSERA_ARG_LIVE
#define TESSERA_ARG_STAYS
#define TESSERA_RETURNS_LIVE
#define TESSERA_RETURNS_EMPTY
#define TESSERA_BECOMES_LIVE
#endif
