// Which types each class of ops.def accepts.
#include "tessera/ir/op_info.hpp"

namespace tessera::ir {

namespace {

bool is_number_tile(Type t) { return t.is_tile() && !t.is_pointer(); }
bool is_float_tile(Type t) { return is_number_tile(t) && info(t.elem()).is_float; }
bool is_int_tile(Type t) { return is_number_tile(t) && !info(t.elem()).is_float; }
bool is_tile_of(Type t, Elem e) { return is_number_tile(t) && t.elem() == e; }
bool is_arithmetic(Type t) { return info(t.elem()).arithmetic; }
bool is_scalar(Type t) { return t.is_tile() && t.rank() == 0; }
bool is_kind(Type t, TypeKind k) { return t && t.kind() == k; }

}  // namespace

bool accepts(TypeClass c, Type t) {
  switch (c) {
    case TypeClass::Any: return static_cast<bool>(t);
    case TypeClass::Tile: return t.is_tile();
    case TypeClass::Number: return is_number_tile(t) && t.elem() != Elem::I4;
    case TypeClass::AnyNumber: return is_number_tile(t);
    case TypeClass::Float: return is_float_tile(t) && is_arithmetic(t);
    case TypeClass::AnyFloat: return is_float_tile(t);
    case TypeClass::F32: return is_tile_of(t, Elem::F32);
    case TypeClass::Int: return is_int_tile(t) && is_arithmetic(t);
    case TypeClass::AnyInt: return is_int_tile(t);
    case TypeClass::I1: return is_tile_of(t, Elem::I1);
    case TypeClass::I8: return is_tile_of(t, Elem::I8);
    case TypeClass::I32: return is_tile_of(t, Elem::I32);
    case TypeClass::I64: return is_tile_of(t, Elem::I64);
    case TypeClass::Pointer: return t.is_tile() && t.is_pointer();
    case TypeClass::ScalarI1: return is_scalar(t) && is_tile_of(t, Elem::I1);
    case TypeClass::ScalarI32: return is_scalar(t) && is_tile_of(t, Elem::I32);
    case TypeClass::ScalarInt: return is_scalar(t) && is_int_tile(t) && is_arithmetic(t);
    case TypeClass::ScalarPointer: return is_scalar(t) && t.is_pointer();
    case TypeClass::Token: return t.is_token();
    case TypeClass::TensorView: return is_kind(t, TypeKind::TensorView);
    case TypeClass::View: return t.is_tiled_view();
    case TypeClass::PartitionView: return is_kind(t, TypeKind::PartitionView);
    case TypeClass::StridedView: return is_kind(t, TypeKind::StridedView);
    case TypeClass::GatherScatterView: return is_kind(t, TypeKind::GatherScatterView);
  }
  return false;
}

const char* text(TypeClass c) {
  switch (c) {
    case TypeClass::Any: return "any type";
    case TypeClass::Tile: return "a tile";
    case TypeClass::Number: return "a tile of numbers (not i4)";
    case TypeClass::AnyNumber: return "a tile of numbers";
    case TypeClass::Float: return "a tile of f16, bf16, f32 or f64";
    case TypeClass::AnyFloat: return "a tile of floating-point numbers";
    case TypeClass::F32: return "a tile of f32";
    case TypeClass::Int: return "a tile of i1, i8, i16, i32 or i64";
    case TypeClass::AnyInt: return "a tile of integers";
    case TypeClass::I1: return "a tile of i1";
    case TypeClass::I8: return "a tile of i8";
    case TypeClass::I32: return "a tile of i32";
    case TypeClass::I64: return "a tile of i64";
    case TypeClass::Pointer: return "a tile of pointers";
    case TypeClass::ScalarI1: return "tile<i1>";
    case TypeClass::ScalarI32: return "tile<i32>";
    case TypeClass::ScalarInt: return "a scalar tile of i1, i8, i16, i32 or i64";
    case TypeClass::ScalarPointer: return "a scalar tile of pointers";
    case TypeClass::Token: return "a token";
    case TypeClass::TensorView: return "a tensor_view";
    case TypeClass::View: return "a partition, strided or gather/scatter view";
    case TypeClass::PartitionView: return "a partition_view";
    case TypeClass::StridedView: return "a strided_view";
    case TypeClass::GatherScatterView: return "a gather_scatter_view";
  }
  return "<unknown class>";
}

}  // namespace tessera::ir
