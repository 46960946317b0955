// A TileSpec in the types of the IR. Private to the layer.
#pragma once
#include <cstdint>
#include <vector>

#include "tessera/ir/operation.hpp"
#include "tessera/lang/emit.hpp"

namespace tessera::lang {

inline std::vector<std::int64_t> shape_of(const TileSpec& spec) { return {spec.extents, spec.extents + spec.rank}; }

inline bool is_float(ElementType t) { return info(t).cls == ElementClass::Float; }
inline bool is_signed(ElementType t) { return info(t).cls == ElementClass::Signed; }
inline bool is_unsigned(ElementType t) { return info(t).cls == ElementClass::Unsigned; }

/// Broadcasts to the shape of `spec`; a scalar constant becomes a constant tile.
ir::Value widened(ir::Builder&, ir::Value, const TileSpec& spec);

}  // namespace tessera::lang
