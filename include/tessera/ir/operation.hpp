// SSA values, operations, blocks, functions and modules. Blocks own their operations in a doubly linked list; every
// value keeps the list of its uses, so replacing and testing for uses take time in proportion to the uses involved.
#pragma once
#include <cassert>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/source_location.hpp"
#include "tessera/ir/attributes.hpp"
#include "tessera/ir/op_info.hpp"
#include "tessera/ir/types.hpp"
#include "tessera/ir/value.hpp"

namespace tessera::ir {

class Function;

struct ValueImpl {
  Type type;
  Operation* def = nullptr;  ///< defining operation, or null for a block argument
  Block* block = nullptr;    ///< owner of a block argument
  std::uint32_t index = 0;   ///< result or argument number
  OpOperand* first_use = nullptr;
};

inline Type Value::type() const { return impl_->type; }
inline void Value::set_type(Type t) const { impl_->type = t; }
inline Operation* Value::def() const { return impl_->def; }
inline Block* Value::argument_block() const { return impl_->block; }
inline std::uint32_t Value::index() const { return impl_->index; }
inline bool Value::has_uses() const { return impl_->first_use != nullptr; }
inline OpOperand* Value::first_use() const { return impl_->first_use; }

/// One operand of one operation: a link in its value's list of uses.
struct OpOperand {
  Value value;
  Operation* owner = nullptr;
  OpOperand* next = nullptr;
  OpOperand** back = nullptr;
  std::uint32_t number() const;
  void set(Value v);
};

struct NamedAttr {
  AttrName name;
  Attribute value;
};

class Operation {
 public:
  Op op() const { return op_; }
  const OpInfo& info() const { return ir::info(op_); }
  SourceLocation loc;

  // Operands: flat, and by group (ops.def). group_sizes() has one entry per declared group.
  std::size_t num_operands() const { return operands_.size(); }
  Value operand(std::size_t i) const { return operands_[i].value; }
  void set_operand(std::size_t i, Value v) { operands_[i].set(v); }
  std::span<OpOperand> operands() { return operands_; }
  std::span<const OpOperand> operands() const { return operands_; }
  std::vector<Value> operand_values() const;
  std::span<const std::uint32_t> group_sizes() const { return group_sizes_; }
  std::vector<Value> group(std::string_view name) const;  ///< the values of one operand group
  Value single(std::string_view name) const;              ///< value of a one or optional group; null if absent
  /// Replaces all operands (sizes per declared group).
  void set_operands(std::span<const Value> values, std::span<const std::uint32_t> group_sizes);

  std::size_t num_results() const { return results_.size(); }
  Value result(std::size_t i = 0) const { return Value(results_[i].get()); }
  Value add_result(Type);
  void erase_result(std::size_t i);  ///< must be unused

  std::span<const NamedAttr> attrs() const { return attrs_; }
  const Attribute* attr(AttrName) const;
  bool has_attr(AttrName n) const { return attr(n) != nullptr; }
  void set_attr(AttrName, Attribute);
  void remove_attr(AttrName);
  template <class E>
  E enum_attr(AttrName n, E fallback = E{}) const {
    auto* a = attr(n);
    return a ? a->as_enum<E>() : fallback;
  }
  /// The value of an attribute of kind bool; where it is absent, what its row implies.
  bool bool_attr(AttrName) const;
  std::int64_t int_attr(AttrName n) const { return attr(n)->as<IntAttr>()->value; }

  std::size_t num_regions() const { return regions_.size(); }
  Block& region(std::size_t i) const { return *regions_[i]; }  ///< every region is one block
  Block& add_region();

  Block* block() const { return block_; }
  Operation* next() const { return next_; }
  Operation* prev() const { return prev_; }
  Operation* parent_op() const;
  Function* function() const;
  void move_before(Operation* other);
  void move_to_end(Block& block);
  void erase();  ///< unlink and delete; results must be unused

  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

 private:
  friend class Block;
  friend class Builder;
  struct GroupRange {
    std::size_t first, count;
  };
  explicit Operation(Op op) : op_(op) {}
  GroupRange group_range(std::string_view name) const;
  void drop_operands();
  void drop_uses();
  Op op_;
  std::vector<OpOperand> operands_;
  std::vector<std::uint32_t> group_sizes_;
  std::vector<std::unique_ptr<ValueImpl>> results_;
  std::vector<NamedAttr> attrs_;
  std::vector<std::unique_ptr<Block>> regions_;
  Block* block_ = nullptr;
  Operation* prev_ = nullptr;
  Operation* next_ = nullptr;
};

class Block {
 public:
  Block() = default;
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::size_t num_args() const { return args_.size(); }
  Value arg(std::size_t i) const { return Value(args_[i].get()); }
  Value add_arg(Type);
  void erase_arg(std::size_t i);  ///< must be unused
  /// Makes the arguments appear in this order (a permutation of argument numbers).
  void reorder_args(std::span<const std::uint32_t> order);

  struct iterator {
    using value_type = Operation;
    using difference_type = std::ptrdiff_t;
    Operation* op = nullptr;
    Operation& operator*() const { return *op; }
    Operation* operator->() const { return op; }
    iterator& operator++() {
      op = op->next();
      return *this;
    }
    iterator operator++(int) {
      auto t = *this;
      ++*this;
      return t;
    }
    bool operator==(const iterator&) const = default;
  };
  iterator begin() const { return {first_}; }
  iterator end() const { return {}; }
  bool empty() const { return first_ == nullptr; }
  Operation* front() const { return first_; }
  Operation* back() const { return last_; }
  Operation* terminator() const;                 ///< the last operation if it is a terminator, else null
  Operation* parent() const { return parent_; }  ///< operation whose region this is; null for a function body
  Function* function() const;

 private:
  friend class Operation;
  friend class Builder;
  friend class Function;
  void link(std::unique_ptr<Operation>, Operation* before);  ///< before == null: at the end
  std::unique_ptr<Operation> unlink(Operation*);
  void drop_uses();
  std::vector<std::unique_ptr<ValueImpl>> args_;
  Operation* first_ = nullptr;
  Operation* last_ = nullptr;
  Operation* parent_ = nullptr;
  Function* function_ = nullptr;
};

/// An entry (kernel), or a plain function.
class Function {
 public:
  explicit Function(std::string name, bool entry = true);
  ~Function();
  std::string name;
  bool entry;
  DictAttr hints;  ///< optimization_hints: arch ("sm_90", "default") -> dictionary
  SourceLocation loc;
  Block& body() { return body_; }
  const Block& body() const { return body_; }

 private:
  Block body_;
};

struct Global {
  std::string name;
  DenseAttr value;
  std::int64_t alignment = 0;
  bool is_private = false;
  bool constant = false;
};

struct Module {
  Module();
  ~Module();
  std::string name = "kernels";
  std::string producer;  ///< written from 13.3 on; empty: none
  std::vector<Global> globals;
  std::vector<std::unique_ptr<Function>> functions;
  Function& add_function(std::string name, bool entry = true);
};

/// The module's only entry; throws CompileError if it has none.
const Function& entry_of(const Module& module);

/// Deep copy.
std::unique_ptr<Module> clone(const Module&);

/// Calls `f(Operation&)` for every operation inside a block, outer before inner. `f` may not erase.
template <class F>
void walk(const Block& block, F&& f) {
  for (Operation& op : block) {
    f(op);
    for (std::size_t i = 0; i < op.num_regions(); ++i) walk(op.region(i), f);
  }
}

/// Inserts operations at a point.
class Builder {
 public:
  explicit Builder(Block& at_end) : block_(&at_end) {}
  static Builder before(Operation* op) {
    Builder b(*op->block());
    b.before_ = op;
    return b;
  }
  void set_to_end(Block& b) {
    block_ = &b;
    before_ = nullptr;
  }
  Block& block() const { return *block_; }

  /// Location given to what is created.
  SourceLocation loc;

  /// Ops whose operand groups are all single or whose only group is variadic: group sizes are derived.
  Operation* create(Op, std::span<const Value> operands, std::span<const Type> results,
                    std::initializer_list<NamedAttr> attrs = {});
  Operation* create(Op op, std::initializer_list<Value> operands, std::initializer_list<Type> results,
                    std::initializer_list<NamedAttr> attrs = {}) {
    return create(op, std::span(operands.begin(), operands.size()), std::span(results.begin(), results.size()), attrs);
  }
  /// Ops with optional or several variadic groups: one entry of `group_sizes` per declared group.
  Operation* create_grouped(Op, std::span<const Value> operands, std::span<const std::uint32_t> group_sizes,
                            std::span<const Type> results, std::initializer_list<NamedAttr> attrs = {});

  /// An operation without operands, results and attributes yet, for copying.
  Operation* create_unconnected(Op);

  // Constants.
  Value constant(Type tile, const Attribute& dense);
  Value constant_int(Elem, std::int64_t value, std::span<const std::int64_t> shape = {});
  /// `value` is rounded to the element (nearest even, saturating for fp8 as PTX cvt.satfinite).
  Value constant_float(Elem, double value, std::span<const std::int64_t> shape = {});

 private:
  Block* block_;
  Operation* before_ = nullptr;
};

}  // namespace tessera::ir
