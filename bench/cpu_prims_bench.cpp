// The tile primitives of the CPU backend against peers on one core: matrix products against OpenBLAS (one thread, where
// it was found), elementwise loops against the memory they touch (tiles stay in the second-level cache). Run with one
// core to itself:
//   taskset -c 0 build/release/bench/cpu_prims_bench
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "codegen/cpu/prims/isa.hpp"

#if defined(TESSERA_BENCH_OPENBLAS)
#include <cblas.h>
extern "C" void openblas_set_num_threads(int);
#endif

namespace {

using namespace tessera;
using cpu::prims::Isa;
using ir::Elem;
using ir::Op;

std::vector<float> numbers(std::int64_t n) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> draw(0.5f, 2.0f);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = draw(random);
  return v;
}

/// Tile sizes, best instruction set; operands of every format have the layout that the argument says (1: b transposed).
void matmul(benchmark::State& state, Elem e, Isa isa) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool transposed = state.range(3) != 0;
  const Elem acc = e == Elem::F64 ? Elem::F64 : e == Elem::I8 ? Elem::I32 : Elem::F32;
  const cpu::prims::MmaOp op{e, e, acc};
  std::vector<double> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n)),
      c(static_cast<std::size_t>(m * n));
  std::vector<double> scratch(cpu::prims::mma_scratch_bytes(op, m, n, k) / 8 + 8);
  void* aligned = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64);
  const auto f = cpu::prims::mma(op, isa);
  for (auto _ : state) {
    f({.a = {a.data(), m * k, k, 1},
       .b = {b.data(), k * n, transposed ? 1 : n, transposed ? k : 1},
       .acc = c.data(),
       .dst = c.data(),
       .batch = 1,
       .m = m,
       .n = n,
       .k = k,
       .scratch = aligned});
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(
      2.0 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

#if defined(TESSERA_BENCH_OPENBLAS)
void openblas(benchmark::State& state) {
  const int m = static_cast<int>(state.range(0)), n = static_cast<int>(state.range(1)),
            k = static_cast<int>(state.range(2));
  const auto a = numbers(m * k), b = numbers(k * n);
  std::vector<float> c(static_cast<std::size_t>(m) * static_cast<std::size_t>(n));
  const bool transposed = state.range(3) != 0;
  openblas_set_num_threads(1);
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans, m, n, k, 1.0f, a.data(), k,
                b.data(), transposed ? k : n, 1.0f, c.data(), n);
    benchmark::ClobberMemory();
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(2.0 * m * n * k, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}
#endif

void elementwise(benchmark::State& state, ir::ElementOp op, Isa isa) {
  const std::int64_t n = state.range(0);
  const auto a = numbers(n * 2), b = numbers(n * 2), c = numbers(n * 2);
  std::vector<float> out(static_cast<std::size_t>(n) * 2);
  const cpu::prims::Operand views[] = {{a.data(), n * ir::info(op.source).bytes, false},
                                       {b.data(), n * ir::info(op.source).bytes, false},
                                       {c.data(), n * ir::info(op.source).bytes, false}};
  const auto f = cpu::prims::elementwise(op, isa);
  for (auto _ : state) {
    f(out.data(), views, 1, n);
    benchmark::ClobberMemory();
  }
  state.counters["elements/s"] =
      benchmark::Counter(static_cast<double>(n), benchmark::Counter::kIsIterationInvariantRate);
}

void reduction(benchmark::State& state, ir::ElementOp op, Isa isa) {
  const std::int64_t outer = state.range(0), n = state.range(1), inner = state.range(2);
  const auto a = numbers(outer * n * inner);
  std::vector<float> out(static_cast<std::size_t>(outer * inner));
  const auto f = cpu::prims::reduce(op, isa);
  for (auto _ : state) {
    f(out.data(), a.data(), outer, n, inner);
    benchmark::ClobberMemory();
  }
  state.counters["elements/s"] =
      benchmark::Counter(static_cast<double>(outer * n * inner), benchmark::Counter::kIsIterationInvariantRate);
}

void add_matmuls(benchmark::internal::Benchmark* b) {
  for (const auto& s : {std::vector<std::int64_t>{128, 128, 64, 0},
                        {128, 128, 64, 1},
                        {256, 256, 256, 0},
                        {64, 64, 32, 0},
                        {16, 16, 16, 0}})
    b->Args(s);
}

struct Named {
  const char* name;
  ir::ElementOp op;
};

void register_all() {
  struct {
    const char* name;
    Isa isa;
  } const sets[] = {{"avx512", Isa::Avx512}, {"avx2", Isa::Avx2}, {"baseline", Isa::Baseline}};
  const Named ops[] = {
      {"addf f32", {.op = Op::AddF, .source = Elem::F32, .result = Elem::F32, .arity = 2}},
      {"addf bf16", {.op = Op::AddF, .source = Elem::BF16, .result = Elem::BF16, .arity = 2}},
      {"addf f16", {.op = Op::AddF, .source = Elem::F16, .result = Elem::F16, .arity = 2}},
      {"fma f32", {.op = Op::Fma, .source = Elem::F32, .result = Elem::F32, .arity = 3}},
      {"maxf f32", {.op = Op::MaxF, .source = Elem::F32, .result = Elem::F32, .arity = 2}},
      {"divf f32", {.op = Op::DivF, .source = Elem::F32, .result = Elem::F32, .arity = 2}},
      {"exp f32", {.op = Op::Exp, .source = Elem::F32, .result = Elem::F32, .arity = 1}},
      {"exp2 f32", {.op = Op::Exp2, .source = Elem::F32, .result = Elem::F32, .arity = 1}},
      {"log f32", {.op = Op::Log, .source = Elem::F32, .result = Elem::F32, .arity = 1}},
      {"tanh f32", {.op = Op::TanH, .source = Elem::F32, .result = Elem::F32, .arity = 1}},
      {"sin f32", {.op = Op::Sin, .source = Elem::F32, .result = Elem::F32, .arity = 1}},
      {"rsqrt f32", {.op = Op::Rsqrt, .source = Elem::F32, .result = Elem::F32, .arity = 1}},
      {"pow f32", {.op = Op::Pow, .source = Elem::F32, .result = Elem::F32, .arity = 2}},
      {"ftof f32 bf16", {.op = Op::FToF, .source = Elem::F32, .result = Elem::BF16, .arity = 1}},
      {"ftof f16 f32", {.op = Op::FToF, .source = Elem::F16, .result = Elem::F32, .arity = 1}},
      {"ftof f32 e4m3", {.op = Op::FToF, .source = Elem::F32, .result = Elem::F8E4M3FN, .arity = 1}},
      {"ftoi f32 i32", {.op = Op::FToI, .source = Elem::F32, .result = Elem::I32, .arity = 1}},
      {"itof i32 f32", {.op = Op::IToF, .source = Elem::I32, .result = Elem::F32, .arity = 1}},
      {"divi i32",
       {.op = Op::DivI, .source = Elem::I32, .result = Elem::I32, .rounding = ir::Rounding::Zero, .arity = 2}},
      {"addi i32", {.op = Op::AddI, .source = Elem::I32, .result = Elem::I32, .arity = 2}},
      {"muli i64", {.op = Op::MulI, .source = Elem::I64, .result = Elem::I64, .arity = 2}},
      {"cmpi i32", {.op = Op::CmpI, .source = Elem::I32, .result = Elem::I1, .arity = 2}},
      {"cmpf f32", {.op = Op::CmpF, .source = Elem::F32, .result = Elem::I1, .arity = 2}},
      {"select f32", {.op = Op::Select, .source = Elem::F32, .result = Elem::F32, .arity = 3}}};
  for (const auto& set : sets) {
    if (!cpu::prims::isa_available(set.isa)) continue;
    const std::string suffix = std::string("/") + set.name;
    struct {
      const char* name;
      Elem e;
    } const elements[] = {{"f32", Elem::F32}, {"f64", Elem::F64}, {"bf16", Elem::BF16}, {"i8", Elem::I8}};
    for (const auto& e : elements)
      add_matmuls(
          benchmark::RegisterBenchmark((std::string("matmul ") + e.name + suffix).c_str(), matmul, e.e, set.isa));
    for (const Named& n : ops)
      benchmark::RegisterBenchmark((n.name + suffix).c_str(), elementwise, n.op, set.isa)->Arg(16384)->Arg(1);
    const ir::ElementOp sum{.op = Op::AddF, .source = Elem::F32, .result = Elem::F32, .arity = 2};
    benchmark::RegisterBenchmark(("sum f32" + suffix).c_str(), reduction, sum, set.isa)
        ->Args({128, 128, 1})
        ->Args({1, 16384, 1})
        ->Args({1, 128, 128});
    ir::ElementOp max = sum;
    max.op = Op::MaxF;
    benchmark::RegisterBenchmark(("max f32" + suffix).c_str(), reduction, max, set.isa)
        ->Args({128, 128, 1})
        ->Args({1, 128, 128});
  }
#if defined(TESSERA_BENCH_OPENBLAS)
  add_matmuls(benchmark::RegisterBenchmark("matmul f32/openblas", openblas));
#endif
}

}  // namespace

int main(int argc, char** argv) {
  register_all();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
