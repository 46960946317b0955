// The tile operations of the CPU backend on one core: matrix products of tiles against OpenBLAS (one thread, where it
// was found), elementwise operations and reductions in elements per second. A kernel of one block repeats an operation
// on tiles that stay in the cache. Run it with a core to itself:
//   OPENBLAS_NUM_THREADS=1 taskset -c 0 build/release/bench/bench_cpu_prims
// (OPENBLAS_CORETYPE=SkylakeX where OpenBLAS does not recognise an AVX-512 processor: its default is then four times
// slower; TESSERA_CPU_ISA=avx2 for our AVX2 code.)
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tessera/codegen/cpu/program.hpp"
#include "tessera/ir/operation.hpp"

#if __has_include(<cblas.h>)
#include <cblas.h>
#endif

namespace {

using namespace tessera::ir;
using tessera::cpu::Program;

constexpr std::int64_t kRepeats = 64;  ///< operations per launch, so that the launch itself does not count

/// A kernel of one block: loads whole tensors as tiles, repeats `body` on a carried tile, stores it.
struct Repeat {
  Module module;
  Function& entry = module.add_function("repeat");
  Builder b{entry.body()};

  static Type tile(Elem e, std::vector<std::int64_t> shape) { return Type::tile(Type::element(e), shape); }
  Value zero() { return b.constant_int(Elem::I32, 0); }

  /// A view of a contiguous tensor that is one tile.
  Value view(Value pointer, std::vector<std::int64_t> shape) {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
    const Type tensor = Type::tensor_view(pointer.type().elem(), shape, strides);
    const std::uint32_t groups[] = {1, 0, 0};
    const Value t = b.create_grouped(Op::MakeTensorView, std::array{pointer}, groups, std::array{tensor})->result();
    const std::vector<std::int32_t> extents(shape.begin(), shape.end());
    return b.create(Op::MakePartitionView, {t}, {Type::partition_view(tensor, extents, {}, std::nullopt)})->result();
  }
  std::vector<NamedAttr> access(std::size_t rank) const {
    return {{AttrName::memory_ordering_semantics, MemoryOrdering::Weak},
            {AttrName::inbounds, BoolArrayAttr{std::vector<bool>(rank, true)}}};
  }
  Value pointer(Elem e) { return entry.body().add_arg(Type::tile(Type::pointer(Type::element(e)), {})); }
  Value load(Value view) {
    const std::size_t rank = view.type().tile_shape().size();
    std::vector<Value> in{view};
    in.resize(1 + rank, zero());
    const std::uint32_t groups[] = {1, static_cast<std::uint32_t>(rank), 0};
    Operation* op = b.create_grouped(Op::LoadViewTko, in, groups, std::array{view.type().view_tile(), Type::token()});
    for (const NamedAttr& a : access(rank)) op->set_attr(a.name, a.value);
    return op->result();
  }
  void store(Value value, Value view) {
    const std::size_t rank = view.type().tile_shape().size();
    std::vector<Value> in{value, view};
    in.resize(2 + rank, zero());
    const std::uint32_t groups[] = {1, 1, static_cast<std::uint32_t>(rank), 0};
    Operation* op = b.create_grouped(Op::StoreViewTko, in, groups, std::array{Type::token()});
    for (const NamedAttr& a : access(rank)) op->set_attr(a.name, a.value);
  }
  /// The carried value after kRepeats applications of `body(value, tile)`, whose result is the next value.
  template <class F>
  Value repeated(Value start, F&& body) {
    const Value in[] = {zero(), b.constant_int(Elem::I32, kRepeats), b.constant_int(Elem::I32, 1), start};
    const Type types[] = {start.type()};
    Operation* loop = b.create(Op::For, in, types);
    Block &region = loop->add_region(), &outer = b.block();
    region.add_arg(Type::tile(Elem::I32));
    const Value carried = region.add_arg(start.type());
    b.set_to_end(region);
    b.create(Op::Continue, {body(carried)}, {});
    b.set_to_end(outer);
    return loop->result(0);
  }
  std::shared_ptr<const Program> compile() {
    b.create(Op::Return, {}, {});
    return Program::compile(module);
  }
};

/// Memory for one tile of any element: small numbers near 1.
std::vector<float> numbers(std::int64_t n) {
  std::vector<float> v(static_cast<std::size_t>(n) * 2);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = 0.5f + 0.001f * static_cast<float>(i % 1000);
  return v;
}
std::uint64_t slot(std::vector<float>& v) { return reinterpret_cast<std::uint64_t>(v.data()); }

void run(benchmark::State& state, const Program& program, std::span<const std::uint64_t> args, double work,
         const char* unit) {
  tessera::cpu::RunOptions options;
  options.threads = 1;
  for (auto _ : state) program.run({1}, args, options);
  state.counters[unit] =
      benchmark::Counter(work * static_cast<double>(kRepeats), benchmark::Counter::kIsIterationInvariantRate);
}

/// Arguments: m, n, k, and 1 if b is transposed in the kernel.
void matmul(benchmark::State& state, Elem e, Elem acc) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool transposed = state.range(3) != 0;
  Repeat kernel;
  const Value a = kernel.load(kernel.view(kernel.pointer(e), {m, k}));
  Value b = kernel.load(kernel.view(kernel.pointer(e), transposed ? std::vector{n, k} : std::vector{k, n}));
  const Value out = kernel.view(kernel.pointer(acc), {m, n});
  if (transposed)
    b = kernel.b.create(Op::Permute, {b}, {Repeat::tile(e, {k, n})}, {{AttrName::permutation, I32ArrayAttr{{1, 0}}}})
            ->result();
  kernel.store(kernel.repeated(kernel.load(out),
                               [&](Value c) {
                                 const bool integer = acc == Elem::I32;
                                 Operation* op = kernel.b.create(integer ? Op::MmaI : Op::MmaF, {a, b, c}, {c.type()});
                                 if (integer)
                                   for (const AttrName s : {AttrName::signedness_lhs, AttrName::signedness_rhs})
                                     op->set_attr(s, Signedness::Signed);
                                 return op->result();
                               }),
               out);
  auto x = numbers(m * k), y = numbers(k * n), z = numbers(m * n);
  run(state, *kernel.compile(), std::array{slot(x), slot(y), slot(z)}, 2.0 * static_cast<double>(m * n * k), "FLOP/s");
}

#if __has_include(<cblas.h>)
void openblas(benchmark::State& state) {
  const int m = static_cast<int>(state.range(0)), n = static_cast<int>(state.range(1)),
            k = static_cast<int>(state.range(2));
  auto a = numbers(m * k), b = numbers(k * n), c = numbers(m * n);
  const bool transposed = state.range(3) != 0;
  for (auto _ : state)
    for (std::int64_t i = 0; i < kRepeats; ++i)
      cblas_sgemm(CblasRowMajor, CblasNoTrans, transposed ? CblasTrans : CblasNoTrans, m, n, k, 1.0f, a.data(), k,
                  b.data(), transposed ? k : n, 1.0f, c.data(), n);
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * m * n * k * static_cast<double>(kRepeats),
                                                benchmark::Counter::kIsIterationInvariantRate);
}
#endif

/// x = op(x) or x = op(x, y), on a tile of the given size.
void elementwise(benchmark::State& state, Op op, Elem e, int arity) {
  const std::int64_t n = state.range(0);
  Repeat kernel;
  const Value x = kernel.view(kernel.pointer(e), {n}), y = kernel.load(kernel.view(kernel.pointer(e), {n}));
  kernel.store(kernel.repeated(kernel.load(x),
                               [&](Value v) {
                                 const std::array<Value, 3> in{v, y, y};
                                 return kernel.b
                                     .create(op, std::span(in).first(static_cast<std::size_t>(arity)),
                                             std::array{v.type()})
                                     ->result();
                               }),
               x);
  auto p = numbers(n), q = numbers(n);
  run(state, *kernel.compile(), std::array{slot(p), slot(q)}, static_cast<double>(n), "elements/s");
}

/// Rows of 128: v = v + broadcast(reduce(v)).
void row_reduction(benchmark::State& state, Op body) {
  const std::int64_t rows = state.range(0), cols = 128;
  Repeat kernel;
  const Value x = kernel.view(kernel.pointer(Elem::F32), {rows, cols});
  kernel.store(
      kernel.repeated(
          kernel.load(x),
          [&](Value v) {
            const Type sums = Repeat::tile(Elem::F32, {rows});
            Operation* reduce = kernel.b.create(Op::Reduce, {v}, {sums}, {{AttrName::dim, IntAttr{Elem::I64, 1}}});
            reduce->set_attr(AttrName::identities, ArrayAttr{{FloatAttr{Elem::F32, 0}}});
            Block &region = reduce->add_region(), &outer = kernel.b.block();
            const Value element = region.add_arg(Type::tile(Elem::F32)), acc = region.add_arg(Type::tile(Elem::F32));
            kernel.b.set_to_end(region);
            const Value next = kernel.b.create(body, {element, acc}, {acc.type()})->result();
            kernel.b.create(Op::Yield, {next}, {});
            kernel.b.set_to_end(outer);
            const Value column =
                kernel.b.create(Op::Reshape, {reduce->result()}, {Repeat::tile(Elem::F32, {rows, 1})})->result();
            const Value spread = kernel.b.create(Op::Broadcast, {column}, {v.type()})->result();
            return kernel.b.create(Op::MaxF, {v, spread}, {v.type()})->result();
          }),
      x);
  auto p = numbers(rows * cols);
  run(state, *kernel.compile(), std::array{slot(p)}, static_cast<double>(rows * cols), "elements/s");
}

void tiles(benchmark::internal::Benchmark* b) {
  for (const auto& s : {std::vector<std::int64_t>{128, 128, 64, 0},
                        {128, 128, 64, 1},
                        {256, 256, 256, 0},
                        {64, 64, 32, 0},
                        {16, 16, 16, 0}})
    b->Args(s);
}

BENCHMARK_CAPTURE(matmul, f32, Elem::F32, Elem::F32)->Apply(tiles);
#if __has_include(<cblas.h>)
BENCHMARK(openblas)->Apply(tiles);
#endif
BENCHMARK_CAPTURE(matmul, f64, Elem::F64, Elem::F64)->Apply(tiles);
BENCHMARK_CAPTURE(matmul, bf16, Elem::BF16, Elem::F32)->Apply(tiles);
BENCHMARK_CAPTURE(matmul, f16, Elem::F16, Elem::F32)->Apply(tiles);
BENCHMARK_CAPTURE(matmul, f8e4m3, Elem::F8E4M3FN, Elem::F32)->Apply(tiles);
BENCHMARK_CAPTURE(matmul, i8, Elem::I8, Elem::I32)->Apply(tiles);

BENCHMARK_CAPTURE(elementwise, addf_f32, Op::AddF, Elem::F32, 2)->Arg(1024)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, addf_bf16, Op::AddF, Elem::BF16, 2)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, addf_f16, Op::AddF, Elem::F16, 2)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, fma_f32, Op::Fma, Elem::F32, 3)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, maxf_f32, Op::MaxF, Elem::F32, 2)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, divf_f32, Op::DivF, Elem::F32, 2)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, addi_i32, Op::AddI, Elem::I32, 2)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, exp_f32, Op::Exp, Elem::F32, 1)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, exp2_f32, Op::Exp2, Elem::F32, 1)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, log_f32, Op::Log, Elem::F32, 1)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, tanh_f32, Op::TanH, Elem::F32, 1)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, sin_f32, Op::Sin, Elem::F32, 1)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, rsqrt_f32, Op::Rsqrt, Elem::F32, 1)->Arg(16384);
BENCHMARK_CAPTURE(elementwise, pow_f32, Op::Pow, Elem::F32, 2)->Arg(16384);
BENCHMARK_CAPTURE(row_reduction, sum_f32, Op::AddF)->Arg(128);
BENCHMARK_CAPTURE(row_reduction, max_f32, Op::MaxF)->Arg(128);

}  // namespace

BENCHMARK_MAIN();
