// The functions of the package, as tables: what each takes and makes, and what runs it. Python's calls (capi.cpp) and
// the operators of PyTorch (guest_calls.cpp) read the same rows.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/element.hpp"

namespace tessera::python {

class Call;

/// The extents of what a function makes, from those of its tensors.
enum class Extents : std::uint8_t {
  First,           ///< those of tensor 1
  Broadcast,       ///< what all tensors broadcast to
  WithoutLast,     ///< those of tensor 1 without the last axis
  None,            ///< a number
  Product,         ///< [m, n] of [m, k] and [k, n]
  Linear,          ///< [..., n] of [..., k] and [n, k]
  Transposed,      ///< [n, m] of [m, n]
  FirstAndScales,  ///< two results: as tensor 1, and float32 as it without the last axis
};

/// What a function makes.
struct Made {
  Extents extents = Extents::First;
  ElementType (*element)(ElementType) = [](ElementType e) { return e; };  ///< of the first result, from tensor 1's
};
/// Results of the element type T, whatever comes in.
template <Element T>
constexpr Made made_of(Extents extents) {
  return {extents, [](ElementType) { return element_type<T>; }};
}

/// A function that Python can call: one row of a table.
struct Function {
  const char* name;
  const char* parameters;           ///< names of its tensors, with commas between
  int least_tensors, most_tensors;  ///< how many of them a call passes
  const char* numbers;              ///< its numbers as PyTorch's schemas have them: "float eps=1e-6, bool causal=False"
  Made made;                        ///< its results
  std::span<const ElementType> elements;  ///< what the first tensor may hold
  void (*run)(Call&);
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
/// All of them; the number of a function is its position.
std::span<const Function> all_functions();

}  // namespace tessera::python
