// Matrix multiplication of tiles: dst = acc + a * b, computed in f32 (f64 for f64), every operand format by way of a
// loader.
//
// A block of at most kDepth rows of b is packed into panels of kColumns columns; a register kernel then holds a kRows x
// kColumns piece of the result and streams down the panel. Rows of a are read where they are (one element at a time,
// broadcast), so a needs no packing; other formats of a are widened into scratch first. The order of additions along k
// is that of k, in blocks of kDepth: the same for every machine. With fused multiply-add where the machine has it
// (products of f16, bf16 and fp8 are exact in f32, so it makes a difference only for f32, tf32 and f64).
//
// 8-bit integers take the same way: kDepth products of two bytes sum to less than 2^24, exact in f32; blocks are added
// as i32.
#pragma once
#include "codegen/cpu/prims/kernels/float_formats.hpp"
#include "codegen/cpu/prims/matmul_plan.hpp"

namespace tessera::cpu::prims::TESSERA_PRIMS_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64, kRows = 8;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32, kRows = 4;
#elif defined(__aarch64__)
inline constexpr int kVectorBytes = 16, kRows = 8;  // 32 registers: 16 sums keep four multiply-adds of latency 4 going
#else
inline constexpr int kVectorBytes = 16, kRows = 4;
#endif
inline constexpr int kVectors = 2;  // side by side in a panel
inline constexpr i64 kInPlaceBytes = 16384;

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
inline constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));
template <class T>
inline constexpr int kColumns = kVectors * kWidth<T>;

template <class T>
TESSERA_INLINED Vector<T> load_vector(const T* from) {
  Vector<T> v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
TESSERA_INLINED void store_vector(T* to, Vector<T> v) {
  __builtin_memcpy(to, &v, sizeof v);
}

/// A matrix of the computing type: element (r, c) at data[r * row_stride + c * col_stride].
template <class T>
struct Source {
  const T* data;
  i64 row_stride, col_stride;
};

/// dst[MR][NV * width] = c + a * b; b has `ldb` elements per row.
template <class T, int MR, int NV>
TESSERA_OUTLINED void register_kernel(const T* a, i64 row_stride, i64 col_stride, const T* b, i64 ldb, i64 depth,
                                      const T* c, i64 ldc, T* dst, i64 ldd) {
  constexpr int W = kWidth<T>;
  Vector<T> sum[MR][NV];
  for (int r = 0; r < MR; ++r)
    for (int v = 0; v < NV; ++v) sum[r][v] = load_vector(c + r * ldc + v * W);
  for (i64 p = 0; p < depth; ++p) {
    Vector<T> row[NV];
    for (int v = 0; v < NV; ++v) row[v] = load_vector(b + v * W);
    for (int r = 0; r < MR; ++r) {
      const T x = a[r * row_stride];
      for (int v = 0; v < NV; ++v)
        sum[r][v] += x * row[v];  // contracted: this source is compiled with -ffp-contract=fast
    }
    a += col_stride;
    b += ldb;
  }
  for (int r = 0; r < MR; ++r)
    for (int v = 0; v < NV; ++v) store_vector(dst + r * ldd + v * W, sum[r][v]);
}

/// All rows against one panel of NV vectors.
template <class T, int NV>
void panel_product(const Source<T>& a, i64 rows, const T* b, i64 ldb, i64 depth, const T* c, i64 ldc, T* dst, i64 ldd) {
  i64 r = 0;
  const auto step = [&]<int MR>() {
    for (; r + MR <= rows; r += MR)
      register_kernel<T, MR, NV>(a.data + r * a.row_stride, a.row_stride, a.col_stride, b, ldb, depth, c + r * ldc, ldc,
                                 dst + r * ldd, ldd);
  };
  if constexpr (kRows >= 8) step.template operator()<8>();
  step.template operator()<4>();
  step.template operator()<2>();
  step.template operator()<1>();
}

/// A panel narrower than a vector: through a padded piece of the result.
template <class T>
void ragged_panel(const Source<T>& a, i64 rows, const T* b, i64 ldb, i64 depth, i64 columns, const T* c, i64 ldc,
                  T* dst, i64 ldd) {
  constexpr int W = kWidth<T>;
  alignas(64) T piece[kRows * W];
  for (i64 r = 0; r < rows; r += kRows) {
    const i64 n = rows - r < kRows ? rows - r : kRows;
    for (i64 i = 0; i < n; ++i)
      for (i64 j = 0; j < W; ++j) piece[i * W + j] = j < columns ? c[(r + i) * ldc + j] : T{0};
    const Source<T> strip{a.data + r * a.row_stride, a.row_stride, a.col_stride};
    panel_product<T, 1>(strip, n, b, ldb, depth, piece, W, piece, W);
    for (i64 i = 0; i < n; ++i)
      for (i64 j = 0; j < columns; ++j) dst[(r + i) * ldd + j] = piece[i * W + j];
  }
}

// ---- packing

#if defined(__aarch64__)
/// to[c][r] = from[r][c] for a block of as many rows and columns as a vector has elements; rows are `pitch` bytes
/// apart. (Vectors of several registers, as below, would be taken apart element by element.)
template <class T>
inline constexpr i64 kBlock = kWidth<T>;
TESSERA_INLINED void transpose_block(float* to, i64 ldt, const char* from, i64 pitch) {
  Vector<float> x[4], y[4];
  for (int i = 0; i < 4; ++i) __builtin_memcpy(&x[i], from + i * pitch, sizeof x[i]);
  for (int i = 0; i < 4; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 4, 2, 6);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 5, 3, 7);
  }
  for (int i = 0; i < 2; ++i) {
    store_vector(to + i * ldt, __builtin_shufflevector(y[i], y[i + 2], 0, 1, 4, 5));
    store_vector(to + (i + 2) * ldt, __builtin_shufflevector(y[i], y[i + 2], 2, 3, 6, 7));
  }
}
TESSERA_INLINED void transpose_block(double* to, i64 ldt, const char* from, i64 pitch) {
  Vector<double> x, y;
  __builtin_memcpy(&x, from, sizeof x);
  __builtin_memcpy(&y, from + pitch, sizeof y);
  store_vector(to, __builtin_shufflevector(x, y, 0, 2));
  store_vector(to + ldt, __builtin_shufflevector(x, y, 1, 3));
}
#else
template <class T>
inline constexpr i64 kBlock = 8;
/// to[c][r] = from[r][c] for an 8 x 8 block; rows are `pitch` bytes apart.
template <class T>
TESSERA_INLINED void transpose_block(T* to, i64 ldt, const char* from, i64 pitch) {
  typedef T V __attribute__((vector_size(8 * sizeof(T))));
  V x[8], y[8];
  for (int i = 0; i < 8; ++i) __builtin_memcpy(&x[i], from + i * pitch, sizeof(V));
  for (int i = 0; i < 8; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      x[i + j] = __builtin_shufflevector(y[i + j], y[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      x[i + j + 2] = __builtin_shufflevector(y[i + j], y[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    y[i] = __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    y[i + 4] = __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int i = 0; i < 8; ++i) __builtin_memcpy(to + i * ldt, &y[i], sizeof(V));
}
#endif

/// to[c * ldt + r] = element c of row r, for r < rows, c < cols; the rows of `from` start `pitch` bytes apart,
/// anywhere.
template <class T>
void transpose(T* to, i64 ldt, const char* from, i64 pitch, i64 rows, i64 cols) {
  constexpr i64 side = kBlock<T>;
  const i64 whole = cols / side * side;
  const auto line = [&](T* column, const char* row, i64 first) {
    for (i64 c = first; c < cols; ++c) __builtin_memcpy(column + c * ldt, row + c * i64{sizeof(T)}, sizeof(T));
  };
  i64 r = 0;
  for (; r + side <= rows; r += side, from += side * pitch, to += side) {
    for (i64 c = 0; c < whole; c += side) transpose_block(to + c * ldt, ldt, from + c * i64{sizeof(T)}, pitch);
    for (i64 i = 0; i < side; ++i) line(to + i, from + i * pitch, whole);
  }
  for (; r < rows; ++r, from += pitch, ++to) line(to, from, 0);
}

/// `n` elements, `stride` apart, in the computing type.
template <class T>
void widen(const Loader<T>& from, T* to, const char* data, i64 stride, i64 n) {
  if (stride == 1 || n == 1) return from.load(to, data, n);
  for (i64 i = 0; i < n; ++i) from.load(to + i, data + i * stride * from.bytes, 1);
}

/// Where an element of an operand is.
inline const char* element(const Matrix& m, int bytes, i64 batch, i64 row, i64 col) {
  return static_cast<const char*>(m.data) + (batch * m.batch_stride + row * m.row_stride + col * m.col_stride) * bytes;
}

/// Multiplies one operand's values by the scale of their block along k.
template <class T>
struct Scales {
  const Loader<T>* loader = nullptr;
  Matrix matrix{};
  i64 batch = 0;
  int block = 0;
  T at(i64 row, i64 col) const {
    T v;
    loader->load(&v, element(matrix, loader->bytes, batch, row, col), 1);
    return v;
  }
};

/// The elements of words of 32 bits: element i of word (row, j) becomes element (row * elements of a word + i, j).
template <class U>
void split_words(U* to, const std::uint32_t* words, i64 rows, i64 width) {
  constexpr int kIn = sizeof(std::uint32_t) / sizeof(U), kBits = 8 * sizeof(U);
  for (i64 r = 0; r < rows; ++r, words += width)
    for (int i = 0; i < kIn; ++i, to += width) {
      TESSERA_INDEPENDENT
      for (i64 j = 0; j < width; ++j) to[j] = static_cast<U>(words[j] >> (i * kBits));
    }
}

/// A panel of elements of 8 or 16 bits that lie side by side along k. Words of several of them are transposed (moved as
/// f32, which changes no bits), taken apart and converted all at once, each step on half the bytes of the next.
inline void pack_words(const Loader<float>& from, const char* columns_of_b, i64 pitch, i64 depth, i64 columns,
                       i64 width, float* panel, float* scratch) {
  const i64 rows = depth * from.bytes / 4;
  if (columns < width)
    for (i64 i = 0; i < rows * width; ++i) scratch[i] = 0;
  transpose(scratch, width, columns_of_b, pitch, columns, rows);
  const auto* words = reinterpret_cast<const std::uint32_t*>(scratch);
  if (from.split != nullptr) return from.split(panel, words, rows, width);
  float* elements = scratch + rows * width;
  if (from.bytes == 1)
    split_words(reinterpret_cast<std::uint8_t*>(elements), words, rows, width);
  else
    split_words(reinterpret_cast<std::uint16_t*>(elements), words, rows, width);
  from.load(panel, elements, depth * width);
}

/// Rows of a panel that lie side by side along it: converted all at once, because one row is short.
template <class T>
void pack_rows(const Loader<T>& from, const char* row, i64 pitch, i64 depth, i64 width, T* panel, T* scratch) {
  const i64 bytes = width * from.bytes;
  auto* to = reinterpret_cast<char*>(scratch);
  for (i64 p = 0; p < depth; ++p) __builtin_memcpy(to + p * bytes, row + p * pitch, static_cast<std::size_t>(bytes));
  from.load(panel, scratch, depth * width);
}

/// Columns [first, first + columns) of rows [top, top + depth) of b as a panel of `width` columns, padded with zeros.
template <class T>
void pack_panel(const Loader<T>& from, const Matrix& b, i64 batch, i64 top, i64 depth, i64 first, i64 columns,
                i64 width, T* panel, T* scratch) {
  const int bytes = from.bytes;
  const char* start = element(b, bytes, batch, top, first);
  const bool by_column = b.col_stride != 1 && b.row_stride == 1 && depth > 1;
  if constexpr (__is_same(T, float)) {
    if (by_column && bytes < 4 && depth * bytes % 4 == 0)
      return pack_words(from, start, b.col_stride * bytes, depth, columns, width, panel, scratch);
  }
  if (columns < width)
    for (i64 i = 0; i < depth * width; ++i) panel[i] = T{0};
  if (from.native && b.col_stride == 1 && columns == width && width == kColumns<T>) {
    const T* row = reinterpret_cast<const T*>(start);
    for (i64 p = 0; p < depth; ++p, row += b.row_stride, panel += kColumns<T>)
      for (int v = 0; v < kVectors; ++v) store_vector(panel + v * kWidth<T>, load_vector(row + v * kWidth<T>));
  } else if (from.native && by_column) {
    transpose(panel, width, start, b.col_stride * bytes, columns, depth);
  } else if (!from.native && b.col_stride == 1 && columns == width) {
    pack_rows(from, start, b.row_stride * bytes, depth, width, panel, scratch);
  } else {
    for (i64 p = 0; p < depth; ++p)
      widen(from, panel + p * width, element(b, bytes, batch, top + p, first), b.col_stride, columns);
  }
}

/// a in the computing type: where it is, or widened into `buffer`.
template <class T>
Source<T> prepare(const Loader<T>& from, const MmaArgs& x, i64 batch, T* buffer, const Scales<T>& scales) {
  const Matrix& a = x.a;
  // Rows that lie apart in memory, often by a power of two, push each other out of the cache where each panel reads
  // them.
  const bool gaps = x.n > 2 * kColumns<T> && (a.col_stride == 1 ? a.row_stride > x.k : a.col_stride > x.m);
  if (from.native && scales.block == 0 && !gaps)
    return {reinterpret_cast<const T*>(element(a, from.bytes, batch, 0, 0)), a.row_stride, a.col_stride};
  const bool by_column = a.row_stride == 1 && a.col_stride != 1;
  Source<T> s{buffer, by_column ? 1 : x.k, by_column ? x.m : 1};
  if (by_column) {
    for (i64 c = 0; c < x.k; ++c) from.load(buffer + c * x.m, element(a, from.bytes, batch, 0, c), x.m);
  } else {
    for (i64 r = 0; r < x.m; ++r) widen(from, buffer + r * x.k, element(a, from.bytes, batch, r, 0), a.col_stride, x.k);
  }
  if (scales.block > 0)
    for (i64 r = 0; r < x.m; ++r)
      for (i64 c = 0; c < x.k; ++c) buffer[r * s.row_stride + c * s.col_stride] *= scales.at(r, c / scales.block);
  return s;
}

// ---- the product of one pair of matrices

template <class T>
struct Product {
  const Plan<T>& plan;
  const MmaArgs& x;
  Scratch<T> scratch;
  i64 batch = 0;

  void scale_panel(T* panel, i64 top, i64 depth, i64 first, i64 columns, i64 width) const {
    const Scales<T> s{plan.scale, x.b_scale, batch, plan.scale_block};
    for (i64 p = 0; p < depth; ++p)
      for (i64 j = 0; j < columns; ++j) panel[p * width + j] *= s.at((top + p) / s.block, first + j);
  }

  /// Adds rows [top, top + depth) of the sum to c, into dst.
  void block(const Source<T>& a, i64 top, i64 depth, const T* c, T* dst) const {
    constexpr int W = kWidth<T>;
    const Source<T> rows{a.data + top * a.col_stride, a.row_stride, a.col_stride};
    const Matrix& b = x.b;
    // Packing does not pay for few rows, nor where all of b stays in the first-level cache anyway.
    const bool small = x.m <= kRows || x.k * x.n * static_cast<i64>(sizeof(T)) <= kInPlaceBytes;
    const bool in_place =
        plan.rhs.native && plan.scale_block == 0 && b.col_stride == 1 && small;  // packing would not pay
    for (i64 j = 0; j < x.n;) {
      const i64 left = x.n - j, width = left >= kColumns<T> ? kColumns<T> : W, columns = left < width ? left : width;
      const T* panel = scratch.panel;
      i64 ldb = width;
      if (in_place && columns == width) {
        panel = reinterpret_cast<const T*>(element(b, plan.rhs.bytes, batch, top, j));
        ldb = b.row_stride;
      } else {
        pack_panel(plan.rhs, b, batch, top, depth, j, columns, width, scratch.panel, scratch.packing);
        if (plan.scale_block > 0) scale_panel(scratch.panel, top, depth, j, columns, width);
      }
      if (columns < W)
        ragged_panel(rows, x.m, panel, ldb, depth, columns, c + j, x.n, dst + j, x.n);
      else if (width == W)
        panel_product<T, 1>(rows, x.m, panel, ldb, depth, c + j, x.n, dst + j, x.n);
      else
        panel_product<T, kVectors>(rows, x.m, panel, ldb, depth, c + j, x.n, dst + j, x.n);
      j += columns;
    }
  }

  void run() const {
    const i64 size = x.m * x.n;
    const char* acc = static_cast<const char*>(x.acc) + batch * size * plan.acc_bytes;
    char* dst = static_cast<char*>(x.dst) + batch * size * plan.acc_bytes;
    const Source<T> a =
        prepare(plan.lhs, x, batch, scratch.a, Scales<T>{plan.scale, x.a_scale, batch, plan.scale_block});
    const T* c = reinterpret_cast<const T*>(acc);
    T* out = reinterpret_cast<T*>(dst);
    if (plan.acc_load) {
      plan.acc_load(scratch.result, acc, size);
      c = out = scratch.result;
    }
    for (i64 top = 0; top < x.k; top += kDepth) {
      block(a, top, x.k - top < kDepth ? x.k - top : kDepth, c, out);
      c = out;
    }
    if (plan.acc_store) plan.acc_store(dst, out, size);
  }

  /// i8: blocks of exact f32 sums, added as i32 (wrapping).
  void run_integer() const {
    const i64 size = x.m * x.n;
    const auto* acc = static_cast<const std::uint32_t*>(x.acc) + batch * size;
    auto* dst = static_cast<std::uint32_t*>(x.dst) + batch * size;
    const Source<T> a = prepare(plan.lhs, x, batch, scratch.a, Scales<T>{});
    for (i64 top = 0; top < x.k; top += kDepth) {
      for (i64 i = 0; i < size; ++i) scratch.result[i] = T{0};
      block(a, top, x.k - top < kDepth ? x.k - top : kDepth, scratch.result, scratch.result);
      TESSERA_INDEPENDENT
      for (i64 i = 0; i < size; ++i)
        dst[i] = acc[i] + static_cast<std::uint32_t>(static_cast<std::int32_t>(scratch.result[i]));
      acc = dst;
    }
  }
};

template <class T>
TESSERA_OUTLINED void multiply(const MmaArgs& x, const Plan<T>& plan) {
  Product<T> p{plan, x, Scratch<T>(x.scratch, x.m, x.k)};
  for (p.batch = 0; p.batch < x.batch; ++p.batch) {
    if (plan.integer)
      p.run_integer();
    else
      p.run();
  }
}

// ---- loaders

template <class T>
void load_native(T* to, const void* from, i64 n) {
  __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
}
template <Elem e>
void load_float(float* to, const void* from, i64 n) {
  Float<e>::load(to, static_cast<const typename Float<e>::U*>(from), n);
}
template <Elem e>
void store_float(void* to, const float* from, i64 n) {
  Float<e>::store(static_cast<typename Float<e>::U*>(to), from, n);
}
template <class I>
void load_integer(float* to, const void* from, i64 n) {
  TESSERA_INDEPENDENT
  for (i64 i = 0; i < n; ++i) to[i] = static_cast<float>(static_cast<const I*>(from)[i]);
}

/// Words hold two elements of bf16, and each element is the upper half of its f32.
inline void split_upper(float* to, const std::uint32_t* words, i64 rows, i64 width) {
  for (i64 r = 0; r < rows; ++r, words += width, to += 2 * width) {
    TESSERA_INDEPENDENT
    for (i64 j = 0; j < width; ++j) {
      to[j] = bits_as<float>(words[j] << 16);
      to[width + j] = bits_as<float>(words[j] & 0xFFFF0000u);
    }
  }
}

template <Elem e>
inline constexpr Loader<float> kLoader{load_float<e>, sizeof(StorageOf<e>), false,
                                       e == Elem::BF16 ? split_upper : nullptr};
template <>
inline constexpr Loader<float> kLoader<Elem::F32>{load_native<float>, 4, true};
template <>
inline constexpr Loader<float> kLoader<Elem::TF32>{load_native<float>, 4, true};  // registers hold rounded values
template <class I>
inline constexpr Loader<float> kIntegerLoader{load_integer<I>, 1, false};

// ---- one entry per combination of elements

template <Elem e, Elem acc>
void multiply_floats(const MmaArgs& x) {
  static constexpr Plan<float> plan{.lhs = kLoader<e>,
                                    .rhs = kLoader<e>,
                                    .acc_bytes = acc == Elem::F16 ? 2 : 4,
                                    .acc_load = acc == Elem::F16 ? load_float<Elem::F16> : nullptr,
                                    .acc_store = acc == Elem::F16 ? store_float<Elem::F16> : nullptr};
  multiply<float>(x, plan);
}
inline void multiply_doubles(const MmaArgs& x) {
  static constexpr Loader<double> native{load_native<double>, 8, true};
  static constexpr Plan<double> plan{.lhs = native, .rhs = native, .acc_bytes = 8};
  multiply<double>(x, plan);
}
template <class L, class R>
void multiply_integers(const MmaArgs& x) {
  static constexpr Plan<float> plan{
      .lhs = kIntegerLoader<L>, .rhs = kIntegerLoader<R>, .acc_bytes = 4, .integer = true};
  multiply<float>(x, plan);
}
template <Elem l, Elem r, Elem scale, int block>
void multiply_scaled(const MmaArgs& x) {
  static constexpr Plan<float> plan{
      .lhs = kLoader<l>, .rhs = kLoader<r>, .acc_bytes = 4, .scale = &kLoader<scale>, .scale_block = block};
  multiply<float>(x, plan);
}

}  // namespace tessera::cpu::prims::TESSERA_PRIMS_ISA
