// What tests of passes share: small modules, counting, verifying.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/ir/ir.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::test {

/// A GPU with the compute capability 9.0 and 132 SMs: the target of tests that need one.
inline constexpr passes::Target kHopper{90, 132};

inline std::string problems_of(const ir::Module& module) {
  std::string text;
  for (const auto& d : ir::verify(module)) text += d.message + "\n";
  return text.empty() ? text : text + ir::print(module);
}

inline std::size_t count(const ir::Function& f, ir::Op op) {
  std::size_t n = 0;
  ir::walk(f.body(), [&](const ir::Operation& o) { n += o.op() == op ? 1 : 0; });
  return n;
}
inline ir::Operation* first(const ir::Function& f, ir::Op op) {
  ir::Operation* found = nullptr;
  ir::walk(f.body(), [&](ir::Operation& o) {
    if (!found && o.op() == op) found = &o;
  });
  return found;
}

/// A kernel under construction. Verified when `function()` is taken and, by `done()`, after the pass.
class Kernel {
 public:
  Kernel() : f_(&module.add_function("kernel")), b(f_->body()) {}
  ir::Value arg(ir::Type t) { return f_->body().add_arg(t); }
  ir::Value arg(ir::Elem e) { return arg(ir::Type::tile(e)); }
  ir::Value pointer(ir::Elem e) { return arg(ir::Type::tile(ir::Type::pointer(ir::Type::element(e)), {})); }
  ir::Value i32(std::int64_t v) { return b.constant_int(ir::Elem::I32, v); }
  ir::Value op(ir::Op o, std::initializer_list<ir::Value> operands, ir::Type result,
               std::initializer_list<ir::NamedAttr> attrs = {}) {
    return b.create(o, operands, {result}, attrs)->result();
  }
  ir::Value binary(ir::Op o, ir::Value x, ir::Value y) { return op(o, {x, y}, x.type()); }

  /// A partition view of a tensor whose extents and leading strides are arguments; the last axis has stride 1.
  ir::Value view(ir::Elem e, std::vector<std::int32_t> tile, std::optional<ir::PaddingValue> padding = {}) {
    const std::size_t rank = tile.size();
    std::vector<std::int64_t> shape(rank, ir::kDynamic), strides(rank, ir::kDynamic);
    strides.back() = 1;
    std::vector<ir::Value> operands{pointer(e)};
    for (std::size_t a = 0; a < rank; ++a) operands.push_back(arg(ir::Elem::I64));
    for (std::size_t a = 0; a + 1 < rank; ++a) operands.push_back(arg(ir::Elem::I64));
    const std::vector<std::uint32_t> groups{1, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(rank - 1)};
    const std::vector<ir::Type> type{ir::Type::tensor_view(e, shape, strides)};
    const ir::Value tensor = b.create_grouped(ir::Op::MakeTensorView, operands, groups, type)->result();
    return op(ir::Op::MakePartitionView, {tensor}, ir::Type::partition_view(tensor.type(), tile, {}, padding));
  }
  ir::Operation* load(ir::Value view, std::vector<ir::Value> index, std::vector<bool> inbounds = {}) {
    std::vector<ir::Value> operands{view};
    operands.insert(operands.end(), index.begin(), index.end());
    const std::vector<std::uint32_t> groups{1, static_cast<std::uint32_t>(index.size()), 0};
    const std::vector<ir::Type> types{view.type().view_tile(), ir::Type::token()};
    ir::Operation* made = b.create_grouped(ir::Op::LoadViewTko, operands, groups, types, {weak()});
    if (!inbounds.empty()) made->set_attr(ir::AttrName::inbounds, ir::BoolArrayAttr{inbounds});
    return made;
  }
  ir::Operation* store(ir::Value tile, ir::Value view, std::vector<ir::Value> index, std::vector<bool> inbounds = {},
                       ir::Value token = {}) {
    std::vector<ir::Value> operands{tile, view};
    operands.insert(operands.end(), index.begin(), index.end());
    if (token) operands.push_back(token);
    const std::vector<std::uint32_t> groups{1, 1, static_cast<std::uint32_t>(index.size()), token ? 1u : 0u};
    const std::vector<ir::Type> types{ir::Type::token()};
    ir::Operation* made = b.create_grouped(ir::Op::StoreViewTko, operands, groups, types, {weak()});
    if (!inbounds.empty()) made->set_attr(ir::AttrName::inbounds, ir::BoolArrayAttr{inbounds});
    return made;
  }
  /// Keeps a value alive: stores it through a pointer argument.
  void keep(ir::Value v) {
    const ir::Type t = v.type();
    ir::Value p = pointer(t.elem());
    if (t.rank() > 0) {
      const std::vector<std::int64_t> ones(t.shape().size(), 1);
      p = op(ir::Op::Reshape, {p}, p.type().with_shape(ones));
      p = op(ir::Op::Broadcast, {p}, p.type().with_shape(t.shape()));
    }
    const std::vector<ir::Value> operands{p, v};
    const std::vector<std::uint32_t> groups{1, 1, 0, 0};
    const std::vector<ir::Type> types{ir::Type::token()};
    b.create_grouped(ir::Op::StorePtrTko, operands, groups, types, {weak()});
  }

  /// Ends the kernel; fails the test if what was built is not legal.
  ir::Function& function() {
    b.create(ir::Op::Return, {}, {});
    EXPECT_EQ(problems_of(module), "");
    return *f_;
  }
  std::string text() const { return ir::print(module); }

  static ir::NamedAttr weak() { return {ir::AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}; }

  ir::Module module;

 private:
  ir::Function* f_;

 public:
  ir::Builder b;
};

}  // namespace tessera::test
