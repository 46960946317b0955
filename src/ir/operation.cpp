// Use lists, operations, blocks, functions, modules.
#include "tessera/ir/operation.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::ir {

namespace {

void link_use(OpOperand& use) {
  if (!use.value) return;
  OpOperand*& head = use.value.impl()->first_use;
  use.next = head;
  use.back = &head;
  if (head) head->back = &use.next;
  head = &use;
}

void unlink_use(OpOperand& use) {
  if (!use.value) return;
  *use.back = use.next;
  if (use.next) use.next->back = use.back;
  use.value = {};
  use.next = nullptr;
  use.back = nullptr;
}

void require_unused(const ValueImpl& value, const char* what) {
  if (value.first_use) throw InternalError(concat(what, " that is still used cannot be erased"));
}

}  // namespace

// ---- values and uses --------------------------------------------------------------------------------------------

bool Value::has_one_use() const { return impl_->first_use && !impl_->first_use->next; }

void Value::replace_all_uses_with(Value other) const {
  if (other == *this) return;
  while (impl_->first_use) impl_->first_use->set(other);
}

std::uint32_t OpOperand::number() const { return static_cast<std::uint32_t>(this - owner->operands().data()); }

void OpOperand::set(Value v) {
  unlink_use(*this);
  value = v;
  link_use(*this);
}

// ---- operations -------------------------------------------------------------------------------------------------

Operation::~Operation() { drop_operands(); }

void Operation::drop_operands() {
  for (OpOperand& use : operands_) unlink_use(use);
}

/// Unlinks every use inside this operation, nested ones included, so that it can be destroyed in any order.
void Operation::drop_uses() {
  drop_operands();
  for (auto& region : regions_) region->drop_uses();
}

std::vector<Value> Operation::operand_values() const {
  std::vector<Value> values;
  values.reserve(operands_.size());
  for (const OpOperand& use : operands_) values.push_back(use.value);
  return values;
}

Operation::GroupRange Operation::group_range(std::string_view name) const {
  int index = info().operand_group(name);
  if (index < 0) throw InternalError(concat(info().mnemonic, " has no operand group `", name, "`"));
  GroupRange range{0, group_sizes_[static_cast<std::size_t>(index)]};
  for (int i = 0; i < index; ++i) range.first += group_sizes_[static_cast<std::size_t>(i)];
  return range;
}

std::vector<Value> Operation::group(std::string_view name) const {
  GroupRange range = group_range(name);
  std::vector<Value> values;
  for (std::size_t i = 0; i < range.count; ++i) values.push_back(operands_[range.first + i].value);
  return values;
}

Value Operation::single(std::string_view name) const {
  GroupRange range = group_range(name);
  return range.count == 0 ? Value() : operands_[range.first].value;
}

void Operation::set_operands(std::span<const Value> values, std::span<const std::uint32_t> group_sizes) {
  std::size_t total = 0;
  for (std::uint32_t n : group_sizes) total += n;
  if (group_sizes.size() != info().operands.size() || total != values.size())
    throw InternalError(concat(info().mnemonic, ": expected sizes for ", info().operands.size(),
                               " operand groups that add up to ", values.size(), ", found ", group_sizes.size(),
                               " sizes adding up to ", total));
  std::vector<Value> copy(values.begin(), values.end());  // `values` may view our own operands
  drop_operands();
  operands_ = std::vector<OpOperand>(copy.size());  // never resized in place: use lists point into it
  for (std::size_t i = 0; i < copy.size(); ++i) {
    operands_[i].owner = this;
    operands_[i].set(copy[i]);
  }
  group_sizes_.assign(group_sizes.begin(), group_sizes.end());
}

Value Operation::add_result(Type type) {
  auto& impl = results_.emplace_back(std::make_unique<ValueImpl>());
  impl->type = type;
  impl->def = this;
  impl->index = static_cast<std::uint32_t>(results_.size() - 1);
  return Value(impl.get());
}

void Operation::erase_result(std::size_t i) {
  require_unused(*results_[i], "a result");
  results_.erase(results_.begin() + static_cast<std::ptrdiff_t>(i));
  for (std::size_t k = i; k < results_.size(); ++k) results_[k]->index = static_cast<std::uint32_t>(k);
}

const Attribute* Operation::attr(AttrName name) const {
  for (const NamedAttr& a : attrs_)
    if (a.name == name) return &a.value;
  return nullptr;
}

bool Operation::bool_attr(AttrName name) const {
  if (const Attribute* value = attr(name)) return *value->as<bool>();
  const AttrInfo* row = info().attribute(name);
  return row && row->implied > 0;
}

void Operation::set_attr(AttrName name, Attribute value) {
  for (NamedAttr& a : attrs_) {
    if (a.name != name) continue;
    a.value = std::move(value);
    return;
  }
  attrs_.push_back({name, std::move(value)});
}

void Operation::remove_attr(AttrName name) {
  std::erase_if(attrs_, [name](const NamedAttr& a) { return a.name == name; });
}

Block& Operation::add_region() {
  regions_.push_back(std::make_unique<Block>());
  regions_.back()->parent_ = this;
  return *regions_.back();
}

Operation* Operation::parent_op() const { return block_ ? block_->parent() : nullptr; }
Function* Operation::function() const { return block_ ? block_->function() : nullptr; }

void Operation::move_before(Operation* other) {
  if (other == this) return;
  other->block_->link(block_->unlink(this), other);
}
void Operation::move_to_end(Block& block) { block.link(block_->unlink(this), nullptr); }

void Operation::erase() {
  for (auto& result : results_) require_unused(*result, "an operation with a result");
  std::unique_ptr<Operation> self = block_->unlink(this);
  self->drop_uses();
}

// ---- blocks -----------------------------------------------------------------------------------------------------

Block::~Block() {
  drop_uses();
  while (last_) unlink(last_);
}

void Block::drop_uses() {
  for (Operation& op : *this) op.drop_uses();
}

Value Block::add_arg(Type type) {
  auto& impl = args_.emplace_back(std::make_unique<ValueImpl>());
  impl->type = type;
  impl->block = this;
  impl->index = static_cast<std::uint32_t>(args_.size() - 1);
  return Value(impl.get());
}

void Block::erase_arg(std::size_t i) {
  require_unused(*args_[i], "a block argument");
  args_.erase(args_.begin() + static_cast<std::ptrdiff_t>(i));
  for (std::size_t k = i; k < args_.size(); ++k) args_[k]->index = static_cast<std::uint32_t>(k);
}

void Block::reorder_args(std::span<const std::uint32_t> order) {
  if (order.size() != args_.size()) throw InternalError("reorder_args: not a permutation of the block's arguments");
  std::vector<std::unique_ptr<ValueImpl>> sorted;
  for (std::uint32_t from : order) {
    if (from >= args_.size() || !args_[from])
      throw InternalError("reorder_args: not a permutation of the block's arguments");
    args_[from]->index = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(std::move(args_[from]));
  }
  args_ = std::move(sorted);
}

Operation* Block::terminator() const { return last_ && last_->info().has(traits::Terminator) ? last_ : nullptr; }

Function* Block::function() const {
  const Block* b = this;
  while (b->parent_ && b->parent_->block()) b = b->parent_->block();
  return b->function_;
}

void Block::link(std::unique_ptr<Operation> owned, Operation* before) {
  Operation* op = owned.release();
  op->block_ = this;
  op->next_ = before;
  op->prev_ = before ? before->prev_ : last_;
  (op->prev_ ? op->prev_->next_ : first_) = op;
  (before ? before->prev_ : last_) = op;
}

std::unique_ptr<Operation> Block::unlink(Operation* op) {
  (op->prev_ ? op->prev_->next_ : first_) = op->next_;
  (op->next_ ? op->next_->prev_ : last_) = op->prev_;
  op->prev_ = op->next_ = nullptr;
  op->block_ = nullptr;
  return std::unique_ptr<Operation>(op);
}

// ---- functions and modules --------------------------------------------------------------------------------------

Function::Function(std::string function_name, bool is_entry) : name(std::move(function_name)), entry(is_entry) {
  body_.function_ = this;
}
Function::~Function() = default;

Module::Module() = default;
Module::~Module() = default;

const Function& entry_of(const Module& module) {
  const auto found = std::ranges::find_if(module.functions, [](const auto& function) { return function->entry; });
  if (found == module.functions.end()) throw CompileError("the module has no entry: there is nothing to launch");
  return **found;
}

Function& Module::add_function(std::string function_name, bool is_entry) {
  functions.push_back(std::make_unique<Function>(std::move(function_name), is_entry));
  return *functions.back();
}

}  // namespace tessera::ir
