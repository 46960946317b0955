// Builds kernels out of plain IR, for tests of the CPU backend that must not depend on the kernel language.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::test {

using namespace tessera::ir;
using Shape = std::vector<std::int64_t>;
using cpu::Grid;
using cpu::Program;
using cpu::RunOptions;

struct Kernel {
  Module module;
  Function& entry;
  Builder b;

  explicit Kernel(const char* name = "kernel") : entry(module.add_function(name)), b(entry.body()) { at(1); }

  /// Source line of the operations that follow: file "kernel.cpp".
  Kernel& at(std::uint32_t line) {
    b.loc = {"kernel.cpp", "kernel", line, 1};
    return *this;
  }

  // Types
  static Type t(Elem e, const Shape& shape = {}) { return Type::tile(Type::element(e), shape); }
  static Type p(Elem e, const Shape& shape = {}) { return Type::tile(Type::pointer(Type::element(e)), shape); }

  // Arguments and constants
  Value arg(Type type) { return entry.body().add_arg(type); }
  Value pointer(Elem e) { return arg(p(e)); }
  Value i32(std::int64_t v, const Shape& shape = {}) { return b.constant_int(Elem::I32, v, shape); }
  Value i64(std::int64_t v, const Shape& shape = {}) { return b.constant_int(Elem::I64, v, shape); }
  Value f32(double v, const Shape& shape = {}) { return b.constant_float(Elem::F32, v, shape); }

  // Plain operations
  Value op(Op o, std::initializer_list<Value> in, Type out, std::initializer_list<NamedAttr> attrs = {}) {
    return b.create(o, in, {out}, attrs)->result();
  }
  Value same(Op o, std::initializer_list<Value> in, std::initializer_list<NamedAttr> attrs = {}) {
    return op(o, in, in.begin()->type(), attrs);
  }
  Value addi(Value x, Value y) { return same(Op::AddI, {x, y}, {{AttrName::overflow, IntegerOverflow::None}}); }
  Value muli(Value x, Value y) { return same(Op::MulI, {x, y}, {{AttrName::overflow, IntegerOverflow::None}}); }
  Value addf(Value x, Value y) { return same(Op::AddF, {x, y}); }
  Value mulf(Value x, Value y) { return same(Op::MulF, {x, y}); }
  Value less(Value x, Value y) {
    return op(
        Op::CmpI, {x, y}, x.type().with_element(Elem::I1),
        {{AttrName::comparison_predicate, ComparisonPredicate::Less}, {AttrName::signedness, Signedness::Signed}});
  }
  Value equal(Value x, Value y) {
    return op(
        Op::CmpI, {x, y}, x.type().with_element(Elem::I1),
        {{AttrName::comparison_predicate, ComparisonPredicate::Equal}, {AttrName::signedness, Signedness::Signed}});
  }
  Value reshape(Value x, const Shape& s) { return op(Op::Reshape, {x}, x.type().with_shape(s)); }
  Value broadcast(Value x, const Shape& s) { return op(Op::Broadcast, {x}, x.type().with_shape(s)); }
  /// A scalar as a whole tile.
  Value spread(Value x, const Shape& s) { return broadcast(reshape(x, Shape(s.size(), 1)), s); }
  Value permute(Value x, std::vector<std::int32_t> order) {
    Shape s;
    for (auto o : order) s.push_back(x.type().shape()[static_cast<std::size_t>(o)]);
    return op(Op::Permute, {x}, x.type().with_shape(s), {{AttrName::permutation, I32ArrayAttr{std::move(order)}}});
  }
  Value iota(std::int64_t n, Elem e = Elem::I32) { return op(Op::Iota, {}, t(e, {n})); }
  Value block(int axis = 0) {
    const Type i = t(Elem::I32);
    return b.create(Op::GetTileBlockId, {}, {i, i, i})->result(static_cast<std::size_t>(axis));
  }
  Value token() { return op(Op::MakeToken, {}, Type::token()); }
  Value join(std::initializer_list<Value> tokens) { return op(Op::JoinTokens, tokens, Type::token()); }

  // Views and memory
  Value tensor(Value base, const Shape& shape, const Shape& strides, const std::vector<Value>& dynamic_shape = {},
               const std::vector<Value>& dynamic_strides = {}) {
    std::vector<Value> in{base};
    in.insert(in.end(), dynamic_shape.begin(), dynamic_shape.end());
    in.insert(in.end(), dynamic_strides.begin(), dynamic_strides.end());
    const std::uint32_t groups[] = {1, static_cast<std::uint32_t>(dynamic_shape.size()),
                                    static_cast<std::uint32_t>(dynamic_strides.size())};
    const Type type = Type::tensor_view(base.type().elem(), shape, strides);
    return b.create_grouped(Op::MakeTensorView, in, groups, std::span(&type, 1))->result();
  }
  Value partition(Value tensor, std::vector<std::int32_t> tile,
                  std::optional<PaddingValue> padding = PaddingValue::Zero, std::vector<std::int32_t> dim_map = {}) {
    return op(Op::MakePartitionView, {tensor}, Type::partition_view(tensor.type(), tile, dim_map, padding));
  }
  /// Result 0: the tile, 1: the token.
  Operation* load(Value view, const std::vector<Value>& index, Value token = {}, std::vector<bool> inbounds = {}) {
    std::vector<Value> in{view};
    in.insert(in.end(), index.begin(), index.end());
    if (token) in.push_back(token);
    const std::uint32_t groups[] = {1, static_cast<std::uint32_t>(index.size()), token ? 1U : 0U};
    const Type out[] = {view.type().view_tile(), Type::token()};
    if (inbounds.empty()) inbounds.assign(index.size(), false);
    return b.create_grouped(
        Op::LoadViewTko, in, groups, out,
        {{AttrName::memory_ordering_semantics, MemoryOrdering::Weak}, {AttrName::inbounds, BoolArrayAttr{inbounds}}});
  }
  /// The token.
  Value store(Value tile, Value view, const std::vector<Value>& index, Value token = {},
              std::vector<bool> inbounds = {}) {
    std::vector<Value> in{tile, view};
    in.insert(in.end(), index.begin(), index.end());
    if (token) in.push_back(token);
    const std::uint32_t groups[] = {1, 1, static_cast<std::uint32_t>(index.size()), token ? 1U : 0U};
    const Type out[] = {Type::token()};
    if (inbounds.empty()) inbounds.assign(index.size(), false);
    return b
        .create_grouped(Op::StoreViewTko, in, groups, out,
                        {{AttrName::memory_ordering_semantics, MemoryOrdering::Weak},
                         {AttrName::inbounds, BoolArrayAttr{inbounds}}})
        ->result();
  }
  /// pointers + offsets, element by element
  Value offsets(Value base, Value index) {
    const Shape s(index.type().shape().begin(), index.type().shape().end());
    Value spread_base = s.empty() ? base : spread(base, s);
    return op(Op::Offset, {spread_base, index}, spread_base.type());
  }
  Operation* load_ptr(Value pointers, Value mask = {}, Value padding = {}, Value token = {}) {
    std::vector<Value> in{pointers};
    for (Value v : {mask, padding, token})
      if (v) in.push_back(v);
    const std::uint32_t groups[] = {1, mask ? 1U : 0U, padding ? 1U : 0U, token ? 1U : 0U};
    const Type out[] = {
        t(pointers.type().elem(), Shape(pointers.type().shape().begin(), pointers.type().shape().end())),
        Type::token()};
    return b.create_grouped(Op::LoadPtrTko, in, groups, out,
                            {{AttrName::memory_ordering_semantics, MemoryOrdering::Weak}});
  }
  Value store_ptr(Value pointers, Value value, Value mask = {}, Value token = {}) {
    std::vector<Value> in{pointers, value};
    for (Value v : {mask, token})
      if (v) in.push_back(v);
    const std::uint32_t groups[] = {1, 1, mask ? 1U : 0U, token ? 1U : 0U};
    const Type out[] = {Type::token()};
    return b
        .create_grouped(Op::StorePtrTko, in, groups, out, {{AttrName::memory_ordering_semantics, MemoryOrdering::Weak}})
        ->result();
  }
  Operation* atomic(Value pointers, AtomicMode mode, Value value, Value mask = {}) {
    std::vector<Value> in{pointers, value};
    if (mask) in.push_back(mask);
    const std::uint32_t groups[] = {1, 1, mask ? 1U : 0U, 0U};
    const Type out[] = {value.type(), Type::token()};
    return b.create_grouped(Op::AtomicRMWTko, in, groups, out,
                            {{AttrName::memory_ordering_semantics, MemoryOrdering::Relaxed},
                             {AttrName::memory_scope, MemoryScope::Device},
                             {AttrName::mode, mode}});
  }

  // Regions: `body(Block&)` runs with the builder at the end of the region.
  template <class F>
  void inside(Block& region, F&& body) {
    Block& outer = b.block();
    b.set_to_end(region);
    body(region);
    b.set_to_end(outer);
  }
  /// `body(iv, carried)` returns the values of the next iteration.
  template <class F>
  Operation* for_loop(Value lo, Value hi, Value step, const std::vector<Value>& init, F&& body,
                      bool is_unsigned = false) {
    std::vector<Value> in{lo, hi, step};
    in.insert(in.end(), init.begin(), init.end());
    std::vector<Type> types;
    for (Value v : init) types.push_back(v.type());
    Operation* op = b.create(Op::For, in, types);
    if (is_unsigned) op->set_attr(AttrName::unsignedCmp, UnitAttr{});
    inside(op->add_region(), [&](Block& region) {
      const Value iv = region.add_arg(lo.type());
      std::vector<Value> carried;
      for (Type type : types) carried.push_back(region.add_arg(type));
      end(Op::Continue, body(iv, carried));
    });
    return op;
  }
  /// `body(carried)` must end with break or continue.
  template <class F>
  Operation* loop(const std::vector<Value>& init, const std::vector<Type>& results, F&& body) {
    Operation* op = b.create(Op::Loop, init, results);
    inside(op->add_region(), [&](Block& region) {
      std::vector<Value> carried;
      for (Value v : init) carried.push_back(region.add_arg(v.type()));
      body(carried);
    });
    return op;
  }
  template <class F, class G>
  Operation* if_else(Value condition, const std::vector<Type>& results, F&& then_body, G&& else_body) {
    const Value in[] = {condition};
    Operation* op = b.create(Op::If, in, results);
    inside(op->add_region(), [&](Block&) { then_body(); });
    inside(op->add_region(), [&](Block&) { else_body(); });
    return op;
  }
  template <class F>
  void if_only(Value condition, F&& body) {
    const Value in[] = {condition};
    Operation* op = b.create(Op::If, in, {});
    inside(op->add_region(), [&](Block&) { body(); });
  }
  void end(Op terminator, const std::vector<Value>& values = {}) { b.create(terminator, values, {}); }
  /// Reduce or scan over one operand with a region of one operation.
  Value fold(Op o, Value x, std::int64_t dim, Type result, Attribute identity, Op body,
             std::initializer_list<NamedAttr> body_attrs = {}) {
    const Value in[] = {x};
    Operation* op = b.create(o, in, std::span(&result, 1), {{AttrName::dim, IntAttr{Elem::I64, dim}}});
    if (o == Op::Scan) op->set_attr(AttrName::reverse, false);
    op->set_attr(AttrName::identities, ArrayAttr{{identity}});
    inside(op->add_region(), [&](Block& region) {
      const Type scalar = t(x.type().elem());
      const Value e = region.add_arg(scalar), acc = region.add_arg(scalar);
      end(Op::Yield, {same(body, {e, acc}, body_attrs)});
    });
    return op->result();
  }

  std::shared_ptr<const Program> compile() {
    end(Op::Return);
    return Program::compile(module);
  }
};

template <class T>
std::uint64_t slot(T* p) {
  return reinterpret_cast<std::uint64_t>(p);
}
inline std::uint64_t slot(std::int64_t v) { return static_cast<std::uint64_t>(v); }

/// The text of the exception that `f` throws, or "" if it does not throw an E.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) { return e.what(); }
  return "";
}

}  // namespace tessera::test
