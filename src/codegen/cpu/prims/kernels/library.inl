// Functions of the C library, one element at a time: compiled for one instruction set.
#include "codegen/cpu/prims/kernels/support.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {
namespace {

#define TESSERA_PRIMS_LIBRARY1(Name, function)            \
  struct Name {                                           \
    static double apply(double x) { return function(x); } \
  };
TESSERA_PRIMS_LIBRARY1(SinD, __builtin_sin)
TESSERA_PRIMS_LIBRARY1(CosD, __builtin_cos)
TESSERA_PRIMS_LIBRARY1(TanD, __builtin_tan)
TESSERA_PRIMS_LIBRARY1(SinhD, __builtin_sinh)
TESSERA_PRIMS_LIBRARY1(CoshD, __builtin_cosh)
TESSERA_PRIMS_LIBRARY1(TanhD, __builtin_tanh)
TESSERA_PRIMS_LIBRARY1(ExpD, __builtin_exp)
TESSERA_PRIMS_LIBRARY1(Exp2D, __builtin_exp2)
TESSERA_PRIMS_LIBRARY1(LogD, __builtin_log)
TESSERA_PRIMS_LIBRARY1(Log2D, __builtin_log2)
#undef TESSERA_PRIMS_LIBRARY1
struct PowD {
  static double apply(double x, double y) { return __builtin_pow(x, y); }
};
struct Atan2D {
  static double apply(double x, double y) { return __builtin_atan2(x, y); }
};
struct RemD {  // fmod is exact
  static double apply(double x, double y) { return __builtin_fmod(x, y); }
};
struct Atan2F {
  static float apply(float x, float y) { return static_cast<float>(__builtin_atan2(x, y)); }
};
struct RemF {
  static float apply(float x, float y) { return __builtin_fmodf(x, y); }
};

LoopFn of_doubles(Op op) {
  using T = double;
  switch (op) {
    case Op::Exp: return loop<ExpD, T, T>;
    case Op::Exp2: return loop<Exp2D, T, T>;
    case Op::Log: return loop<LogD, T, T>;
    case Op::Log2: return loop<Log2D, T, T>;
    case Op::TanH: return loop<TanhD, T, T>;
    case Op::CosH: return loop<CoshD, T, T>;
    case Op::SinH: return loop<SinhD, T, T>;
    case Op::Sin: return loop<SinD, T, T>;
    case Op::Cos: return loop<CosD, T, T>;
    case Op::Tan: return loop<TanD, T, T>;
    case Op::Pow: return loop<PowD, T, T, T>;
    case Op::Atan2: return loop<Atan2D, T, T, T>;
    case Op::RemF: return loop<RemD, T, T, T>;
    default: return nullptr;
  }
}

}  // namespace

LoopFn library(const ElementOp& op) {
  if (op.source == Elem::F64) return of_doubles(op.op);
  if (op.op == Op::Atan2) return loop<Atan2F, float, float, float>;
  return op.op == Op::RemF ? loop<RemF, float, float, float> : nullptr;
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
