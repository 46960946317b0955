// The functions of the package, as tables: what each takes and makes, and what runs it. Python's calls (capi.cpp) and
// the operators of PyTorch (guest_calls.cpp) read the same rows.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/element.hpp"

namespace tessera::python {

class Call;

/// The extents of a result, from those of its function's tensors.
enum class Extents : std::uint8_t {
  Same,         ///< those of one tensor
  WithoutLast,  ///< those of one tensor without the last axis
  Broadcast,    ///< what all tensors broadcast to
  None,         ///< a number
  Product,      ///< [m, n] of [m, k] and [k, n]
  Linear,       ///< [..., n] of [..., k] and [n, k]
  Transposed,   ///< [n, m] of [m, n]
};

/// A result of a function.
struct Result {
  Extents extents = Extents::Same;
  int tensor = 0;  ///< whose extents they are, of Same and WithoutLast
  ElementType (*element)(ElementType) = [](ElementType e) { return e; };  ///< from that of the leading tensor
};
/// A result with elements of T, whatever comes in.
template <Element T>
constexpr Result result_of(Extents extents, int tensor = 0) {
  return {extents, tensor, [](ElementType) { return element_type<T>; }};
}

/// The most results of a function.
inline constexpr int kMaxResults = 3;
/// What a function makes, in order: by default one result like the first tensor.
struct Made {
  std::array<Result, kMaxResults> results{};
  int count = 1;

  constexpr Made() = default;
  constexpr Made(Extents of_one) : results{Result{of_one}} {}  // NOLINT: rows name extents alone
  template <class... R>
  constexpr Made(const Result& first, const R&... others)  // NOLINT: or their results
      : results{first, others...}, count(1 + static_cast<int>(sizeof...(R))) {}
  const Result& operator[](int i) const { return results[static_cast<std::size_t>(i)]; }
};

/// A function that Python can call: one row of a table.
struct Function {
  const char* name;
  const char* parameters;           ///< names of its tensors, with commas between
  int least_tensors, most_tensors;  ///< how many of them a call passes
  const char* numbers;              ///< its numbers as PyTorch's schemas have them: "float eps=1e-6, bool causal=False"
  Made made;                        ///< its results
  std::span<const ElementType> elements;  ///< what the leading tensor may hold
  void (*run)(Call&);
  int leading = 0;  ///< the tensor whose element type chooses the kernel

  constexpr Function led_by(int tensor) const {
    Function led = *this;
    led.leading = tensor;
    return led;
  }
};

/// How many names a list with commas between has.
constexpr int entries(std::string_view list) {
  return list.empty() ? 0 : 1 + static_cast<int>(std::count(list.begin(), list.end(), ','));
}
/// Entry `i`, from 0.
constexpr std::string_view entry(std::string_view list, int i) {
  for (; i > 0; --i) list.remove_prefix(list.find(", ") + 2);
  return list.substr(0, list.find(','));
}
/// The name of tensor parameter `i`, from 0.
inline std::string parameter_name(const Function& f, int i) { return std::string(entry(f.parameters, i)); }

template <class... T>
struct Types {
  static constexpr ElementType list[] = {element_type<T>...};
};

using Floats = Types<f32, bf16, f16>;

// The tables, one for each file.
std::span<const Function> unary_functions();
std::span<const Function> binary_functions();
std::span<const Function> row_functions();
std::span<const Function> reduction_functions();
std::span<const Function> conversion_functions();
std::span<const Function> product_functions();
std::span<const Function> attention_functions();
std::span<const Function> attention_gradient_functions();
std::span<const Function> row_gradient_functions();
std::span<const Function> loss_functions();
/// All of them; the number of a function is its position.
std::span<const Function> all_functions();

}  // namespace tessera::python
