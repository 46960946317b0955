// Host numbers in expressions with tiles. Private to the layer.
#pragma once
#include "tessera/ir/attributes.hpp"
#include "tessera/lang/emit.hpp"

namespace tessera::lang {

/// A number of the host as an attribute of the element type. TraceError if it does not fit.
ir::Attribute literal_attr(ElementType, const HostValue&, SourceLocation);

}  // namespace tessera::lang
