// A handle to an SSA value. What it refers to is in operation.hpp, which defines the members: the kernel language
// passes values on and need not know more of the IR.
#pragma once
#include <cstdint>

namespace tessera::ir {

class Type;
class Operation;
class Block;
class Builder;
struct Module;
struct OpOperand;
struct ValueImpl;

/// A handle to an SSA value.
class Value {
 public:
  constexpr Value() = default;
  explicit constexpr Value(ValueImpl* impl) : impl_(impl) {}
  explicit operator bool() const { return impl_ != nullptr; }
  bool operator==(const Value& other) const { return impl_ == other.impl_; }
  Type type() const;
  void set_type(Type t) const;
  Operation* def() const;         ///< null for block arguments
  Block* argument_block() const;  ///< null for results
  std::uint32_t index() const;
  bool has_uses() const;
  bool has_one_use() const;
  OpOperand* first_use() const;
  void replace_all_uses_with(Value other) const;
  ValueImpl* impl() const { return impl_; }

 private:
  ValueImpl* impl_ = nullptr;
};

}  // namespace tessera::ir
