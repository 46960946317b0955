// Typestate annotations for clang's consumed analysis (-Wconsumed): use after a tensor was given away becomes a
// compile-time diagnostic. Other compilers ignore the annotations; there, and where the analysis cannot follow, the
// run-time BorrowError remains.
//
// The analysis also has a state "unknown": a tensor reached through a reference parameter, or chosen by `?:`. Methods
// accept it, and so do conversions by a method (a launch's In argument): only a tensor that is known to have been given
// away is an error. A parameter cannot require "unconsumed or unknown" (clang 16), so a function that takes `const
// Tensor&` has no annotation, and one that takes `Tensor&&` requires a tensor that is known to be there.
#pragma once

#if defined(__clang__)
#define TESSERA_CONSUMABLE [[clang::consumable(unconsumed)]]  ///< a class that can be given away
#define TESSERA_LIVE \
  [[clang::callable_when("unconsumed", "unknown")]]              ///< a method of a tensor that is not known to be gone
#define TESSERA_ARG_LIVE [[clang::param_typestate(unconsumed)]]  ///< a `Tensor&&` that must be there
#define TESSERA_ARG_STAYS [[clang::return_typestate(unconsumed)]]  ///< a `Tensor&` that is there afterwards
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
