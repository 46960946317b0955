// The result of recording a kernel: the module, the launch signature and the conditions that a launch must satisfy.
//
// Entry arguments, in the order of the kernel's parameters:
//   - a tensor (Mut, MutTiles, In, Acc, unsafe_::Mut): ptr<T>, then `rank` dims (i64), then `rank` strides (i64,
//   elements)
//   - Scalar<T>: one T
//   - unsafe_::Ptr<T>: one ptr<T>
//   - Constant<T>: none. Its value is part of the recording (Specialization::constants)
//   - after those of the parameters, where the call says the number of blocks (counts_blocks): that number, one i32
// Every argument occupies one 8-byte slot of the launch's argument array (little-endian, low bytes).
//
// The grid that a recording expects:
//   - with a Mut: one block per piece; pieces are numbered row-major and the block's number is blockIdx.x
//   - with wide_grid: number = blockIdx.y * gridDim.x + blockIdx.x; gridDim.x * gridDim.y >= pieces and < 2^31; blocks
//     beyond the last piece do nothing
//   - otherwise: any number of blocks below 2^31 (the loops over MutTiles distribute the tiles)
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/element.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/ir/scalar_program.hpp"
#include "tessera/lang/handles.hpp"
#include "tessera/lang/kernel_signature.hpp"
#include "tessera/lang/tracer.hpp"

namespace tessera::lang {

/// One kernel parameter, from its C++ type.
struct ParamInfo {
  ParamKind kind;
  ElementType element;
  int rank = 0;                       ///< of the tensor; 0 for values
  std::vector<std::int64_t> extents;  ///< Mut, MutTiles, UnsafeMut: the piece; In, Acc: static extents or kDyn
  std::string spelling;               ///< as a user writes it: "Mut<f32, 128>", "In<f32, dyn>"
  int first_arg = 0;  ///< first slot in the entry's arguments; for a Constant its number among the Constants

  bool is_constant() const { return kind == ParamKind::Constant; }
  bool is_tensor() const { return kind != ParamKind::Scalar && kind != ParamKind::UnsafePtr && !is_constant(); }
  int num_args() const { return is_tensor() ? 1 + 2 * rank : is_constant() ? 0 : 1; }  ///< slots
};
/// Whether the call says how many blocks there are, `.blocks(n)`: no parameter has pieces that would determine it. The
/// entry's last argument, an i32, then holds that number.
bool counts_blocks(std::span<const ParamInfo> params);
/// Fills in `first_arg`, and `spelling` where there is none; returns the number of argument slots.
int lay_out(std::vector<ParamInfo>& params);
/// "true, 4": the values of the Constants among the parameters, from their bits (one word each, in order).
std::string constants_text(std::span<const ParamInfo> params, std::span<const std::uint64_t> constants);

/// The facts that a recording is specialized by, beyond the parameter types: one entry per tensor parameter and one
/// word per Constant (its bits, in the low bits), in order; missing entries are default, missing words zero.
struct TensorFacts {
  int unit_axis = -1;  ///< an axis whose stride is 1 (static in the view); -1: none known
  // Together these decide while recording where `load_like` broadcasts; for unknown axes the kernel has a branch.
  std::uint32_t unit_dims = 0;  ///< bit a: dim(a) is 1
  std::uint32_t long_dims = 0;  ///< bit a: dim(a) is not 1
};
struct Specialization {
  std::vector<TensorFacts> tensors;
  std::vector<std::uint64_t> constants;
  bool wide_grid = false;       ///< more pieces than one grid axis holds (2^24 - 1): number = y * gridDim.x + x
  bool checked = false;         ///< assert that tile indices are in range and that integers do not wrap
  bool strict = false;          ///< with checked: assert that single positions are inside their tensors
  bool accuracy_given = false;  ///< the call overrides the kernel's default accuracy
  Accuracy accuracy = Accuracy::Precise;
};

/// A `require` condition: evaluated on the host over the launch's argument slots before anything is enqueued.
struct Requirement {
  ir::ScalarProgram condition;  ///< gives an i1
  std::string message;
  SourceLocation where;
};

/// An axis of a tensor parameter, and the argument slot that holds its extent.
struct ExtentOf {
  int param = 0, axis = 0;
  int slot = 0;
  bool operator==(const ExtentOf&) const = default;
};
/// The requirement of `x.load_like(y)`: `loaded`, an axis of x, has the extent of `piece`, the corresponding axis of
/// y's tensor, or, with `or_one`, 1 and is repeated.
struct SameExtent {
  ExtentOf loaded, piece;
  bool or_one = false;
  SourceLocation where;
  bool holds(std::span<const std::uint64_t> slots) const {
    const std::uint64_t n = slots[static_cast<std::size_t>(loaded.slot)];
    return n == slots[static_cast<std::size_t>(piece.slot)] || (or_one && n == 1);
  }
};

struct Trace {
  std::unique_ptr<ir::Module> module;  ///< one entry, named `name`
  std::string name;                    ///< a label, e.g. "saxpy"
  std::vector<ParamInfo> params;
  std::vector<Requirement> requirements;
  std::vector<SameExtent> same_extents;  ///< evaluated like requirements
};

/// The parameters of a kernel as run-time data (lay_out fills in slots, and what is missing of the spelling).
std::vector<ParamInfo> param_infos(const KernelBody& kernel);
template <auto K>
std::vector<ParamInfo> kernel_param_infos() {
  return param_infos(kernel_body<K>);
}

/// Records a kernel: runs it once on this thread and returns its Tile IR. Throws TraceError for code that a recording
/// cannot express (docs/tracing.md).
Trace trace(const KernelBody& kernel, const Specialization& specialization, SourceLocation where);
template <auto K>
Trace trace(const Specialization& specialization = {}, SourceLocation where = SourceLocation::current()) {
  if constexpr (kernel_params_ok<K>()) {
    return trace(kernel_body<K>, specialization, where);
  } else {
    return {};
  }
}

}  // namespace tessera::lang
