// Numbers, constants and attributes in NVIDIA's text form.
#pragma once
#include <string>

#include "tessera/ir/attributes.hpp"
#include "tessera/ir/op_info.hpp"

namespace tessera::ir {

/// A number as MLIR prints it: integers signed (i1: true, false), floats as 1.000000e+00, or with all their digits
/// where six do not give the same bits back, or as hexadecimal bits for infinities and NaN.
std::string number_text(Elem, std::uint64_t bits);

/// `<f32: [1.000000e+00, ...]> : tile<4xf32>`
std::string dense_text(const DenseAttr&);
/// The raw bits of one element (tf32: as in memory). `index` 0 for a splat.
std::uint64_t dense_element(const DenseAttr&, std::size_t index);

/// `"text"` with MLIR's escapes.
std::string quoted_text(const std::string&);

/// The value of an attribute of an operation.
std::string attribute_text(AttrKind, const Attribute&);
/// `<arch = {key = value}, ...>`, sorted by key as MLIR's dictionaries are.
std::string hints_text(const DictAttr&);

}  // namespace tessera::ir
