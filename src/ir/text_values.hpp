// Numbers, constants and attributes in NVIDIA's text form.
#pragma once
#include <string>
#include <string_view>

#include "tessera/ir/attributes.hpp"
#include "tessera/ir/op_info.hpp"

namespace tessera::ir {

/// A number as MLIR prints it: integers signed (i1: true, false), floats as 1.000000e+00, or with all their digits
/// where six do not give the same bits back, or as hexadecimal bits for infinities and NaN.
std::string number_text(Elem, std::uint64_t bits);
/// The bits of a number in one of these forms; false if `text` is none or the number does not fit the element.
bool number_bits(Elem, std::string_view text, std::uint64_t& bits);

/// `<f32: [1.000000e+00, ...]> : tile<4xf32>`
std::string dense_text(const DenseAttr&);
/// The raw bits of one element (tf32: as in memory). `index` 0 for a splat.
std::uint64_t dense_element(const DenseAttr&, std::size_t index);

/// `"text"` with MLIR's escapes.
std::string quoted_text(const std::string&);
/// The text without quotes around it: backslashes and what is not printable are escaped.
std::string escaped_text(const std::string&);
/// A name of a key or symbol that needs no quotes.
bool is_bare_name(std::string_view);
/// `@name`, or `@"name"` where the name is not bare.
std::string symbol_text(const std::string& name);

/// What stands before the module's producer in the first line of its text.
inline constexpr std::string_view kProducerComment = "// Producer: ";
/// Elements of a list at most; longer ones are one hexadecimal string.
inline constexpr std::size_t kMaxListedElements = 100;

/// The value of an attribute of an operation.
std::string attribute_text(AttrKind, const Attribute&);
/// `<arch = {key = value}, ...>`, sorted by key as MLIR's dictionaries are.
std::string hints_text(const DictAttr&);

}  // namespace tessera::ir
