// Recording: the insertion point, variables across regions, and the structured operations that regions become.
#include "tessera/lang/tracer.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lang/accuracy.hpp"
#include "lang/first_line.hpp"
#include "lang/variables.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/stack.hpp"
#include "tessera/ir/dead_code.hpp"
#include "tessera/ir/op_info.hpp"

namespace tessera::lang {

using ir::Block;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

thread_local Tracer* current_tracer = nullptr;
/// For the error of a use after it.
thread_local struct {
  std::string name;
  SourceLocation where;
} last_trace;
std::atomic<std::uint32_t> last_serial{0};

constexpr std::size_t kMaxDepth = 256;          // regions inside each other
constexpr int kMaxNesting = 8;                  // kernels traced inside each other
constexpr std::size_t kStackReserve = 1 << 18;  // bytes that unwinding and reporting an error may need

enum class RegionKind : std::uint8_t { Kernel, For, Loop, Then, Else, Combiner };

struct Incoming {
  std::uint32_t var;
  Value outer, arg;
};
struct Final {
  std::uint32_t var;
  Value value;
};

struct Scope {
  Scope(RegionKind region_kind, Block& region_block, Operation* region_op, SourceLocation location)
      : kind(region_kind), block(&region_block), op(region_op), loc(location) {}
  RegionKind kind;
  Block* block;
  Operation* op;
  SourceLocation loc;
  std::vector<std::uint32_t> order;  ///< variables bound here, in the order of their first binding
  std::vector<Incoming> incoming;    ///< loops: provisional block arguments
  std::vector<Final> then_values;    ///< Else: what the first arm left
  std::vector<Final> at_break;       ///< Loop: what the variables were when the condition was tested
  bool tests_condition = false;      ///< Loop: break_unless has been recorded
  Operation* break_op = nullptr;
};

}  // namespace

struct Tracer::Impl {
  Impl(std::string kernel_name, SourceLocation location)
      : name(std::move(kernel_name)),
        module(std::make_unique<ir::Module>()),
        function(module->add_function(name)),
        builder(function.body()),
        start(function.body()) {
    where = location;
    function.loc = location;
    builder.loc = location;
    anchor = builder.create(Op::MakeToken, {}, {Type::token()});
    start = ir::Builder::before(anchor);
    start.loc = location;
    scopes.emplace_back(RegionKind::Kernel, function.body(), nullptr, location);
  }

  std::uint32_t depth() const { return static_cast<std::uint32_t>(scopes.size() - 1); }
  Scope& top() { return scopes.back(); }
  [[noreturn]] void error(const std::string& message) const { throw TraceError(message, builder.loc); }

  std::uint32_t number(Var v) const {
    if (static_cast<std::uint32_t>(v >> 32) != serial)
      error(
          "a tile of another kernel's trace was used here: a tile lives only while the kernel that made it is traced "
          "(is it "
          "static, or captured?)");
    return static_cast<std::uint32_t>(v);
  }
  const Variables::Binding& binding(std::uint32_t v) const {
    const Variables::Binding* b = variables.innermost(v);
    if (!b)
      error(
          "a tile declared inside a loop or branch was used after its end: declare it before the loop or branch, and "
          "assign it "
          "inside");
    return *b;
  }
  void check_stack() const {
    if (stack_left() < std::min(kStackReserve, stack_size() / 4))
      error(
          "the stack is nearly exhausted: does a kernel or a helper function call itself? Helpers are inlined while "
          "the kernel "
          "is traced, so they cannot recur on a device value");
  }

  void bind(std::uint32_t v, Value value) {
    if (variables.bind(v, depth(), value)) top().order.push_back(v);
  }
  Value read(std::uint32_t v);
  Scope& open(RegionKind kind, Block& block, Operation* op, SourceLocation loc);
  Scope pop();
  std::vector<Final> take_bindings(Scope&);
  void set_insertion();
  bool visible(std::uint32_t v) const { return variables.innermost(v) != nullptr; }

  void close_loop(Scope);
  void close_if(Scope);
  void close_combiner(Scope);

  std::string name;
  std::unique_ptr<ir::Module> module;
  ir::Function& function;
  ir::Builder builder;
  ir::Builder start;
  Operation* anchor = nullptr;
  SourceLocation where;
  std::uint32_t serial = ++last_serial;
  Variables variables;
  std::vector<Scope> scopes;
  std::vector<Operation*> undecided;  ///< precise or approximate, by the uses of their results
  std::optional<TraceError> failure;
  bool abandoned = false;
  Tracer* outer = nullptr;
};

// ---- variables ----------------------------------------------------------------------------------------------------

Value Tracer::Impl::read(std::uint32_t v) {
  const Variables::Binding found = binding(v);
  Value value = found.value;
  for (std::uint32_t d = found.depth + 1; d < scopes.size(); ++d) {
    Scope& scope = scopes[d];
    if (scope.kind == RegionKind::Combiner)
      error("a function given to reduce or scan may use only its two arguments and literals, not a tile from outside");
    if (scope.kind != RegionKind::For && scope.kind != RegionKind::Loop) continue;
    const Value arg = scope.block->add_arg(value.type());
    scope.incoming.push_back({v, value, arg});
    variables.bind(v, d, arg);
    scope.order.push_back(v);
    value = arg;
  }
  return value;
}

Var Tracer::fresh(Value initial) {
  if (!initial) throw TraceError("a tile was created without a value", location());
  const std::uint32_t v = impl_->variables.add();
  impl_->bind(v, initial);
  return (static_cast<Var>(impl_->serial) << 32) | v;
}

Value Tracer::read(Var v) { return impl_->read(impl_->number(v)); }

void Tracer::write(Var v, Value value) {
  Impl& s = *impl_;
  const std::uint32_t n = s.number(v);
  const std::uint32_t depth = s.binding(n).depth;
  for (std::uint32_t d = depth + 1; d < s.scopes.size(); ++d) {
    if (s.scopes[d].kind == RegionKind::Combiner)
      s.error(
          "a function given to reduce or scan may not assign a tile from outside: it must depend on its two arguments "
          "only");
  }
  s.bind(n, value);
}

void Tracer::check_alive(Var v) const { (void)impl_->binding(impl_->number(v)); }

// ---- regions ------------------------------------------------------------------------------------------------------

void Tracer::Impl::set_insertion() { builder.set_to_end(*top().block); }

Scope& Tracer::Impl::open(RegionKind kind, Block& block, Operation* op, SourceLocation loc) {
  scopes.emplace_back(kind, block, op, loc);
  set_insertion();
  return scopes.back();
}

Scope Tracer::Impl::pop() {
  Scope scope = std::move(scopes.back());
  scopes.pop_back();
  set_insertion();
  return scope;
}

/// Removes the region's bindings; the values of variables that outlive it, in first-touch order.
std::vector<Final> Tracer::Impl::take_bindings(Scope& scope) {
  std::vector<Final> values;
  values.reserve(scope.order.size());
  for (const std::uint32_t v : scope.order) {
    const Value value = variables.unbind(v);
    if (visible(v)) values.push_back({v, value});
  }
  return values;
}

namespace {

/// Where each variable stands in a list of them.
template <class List>
std::unordered_map<std::uint32_t, std::size_t> places(const List& list) {
  std::unordered_map<std::uint32_t, std::size_t> found;
  for (std::size_t i = 0; i < list.size(); ++i) found.emplace(list[i].var, i);
  return found;
}

/// Replaces a loop's arguments of variables that were only read by the outer value.
void drop_unchanged(Scope& scope, std::vector<Final>& finals) {
  const std::unordered_map<std::uint32_t, std::size_t> final_of = places(finals);
  std::unordered_map<const ir::ValueImpl*, Value> outer;
  std::vector<Value> dropped;
  for (Incoming& in : scope.incoming) {
    const auto own = final_of.find(in.var);
    if (own == final_of.end() || finals[own->second].value != in.arg) continue;
    in.arg.replace_all_uses_with(in.outer);
    outer.emplace(in.arg.impl(), in.outer);
    dropped.push_back(in.arg);
    finals[own->second].var = Variables::kNowhere;
    in.var = Variables::kNowhere;
  }
  for (std::vector<Final>* list : {&finals, &scope.at_break})
    for (Final& f : *list)
      if (const auto it = outer.find(f.value.impl()); it != outer.end()) f.value = it->second;
  // The last first: those behind one that is erased are renumbered.
  for (std::size_t i = dropped.size(); i-- > 0;) scope.block->erase_arg(dropped[i].index());
}

}  // namespace

void Tracer::Impl::close_loop(Scope scope) {
  std::vector<Final> finals = take_bindings(scope);
  drop_unchanged(scope, finals);
  const std::unordered_map<std::uint32_t, std::size_t> incoming = places(scope.incoming),
                                                       at_break = places(scope.at_break);
  // The others are carried: arguments, initial values, yields and results in one order.
  const std::uint32_t first = scope.kind == RegionKind::For ? 1 : 0;
  std::vector<std::uint32_t> arg_order;
  for (std::uint32_t i = 0; i < first; ++i) arg_order.push_back(i);
  std::vector<Value> inits, yields, breaks;
  std::vector<Final> results;
  for (const Final& f : finals) {
    if (f.var == Variables::kNowhere) continue;
    const auto in = incoming.find(f.var), tested = at_break.find(f.var);
    const bool had_arg = in != incoming.end();
    const Value init = had_arg ? scope.incoming[in->second].outer : read(f.var);
    const Value arg = had_arg ? scope.incoming[in->second].arg : scope.block->add_arg(init.type());
    arg_order.push_back(arg.index());
    inits.push_back(init);
    yields.push_back(f.value);
    breaks.push_back(tested != at_break.end() ? scope.at_break[tested->second].value : arg);
    results.push_back({f.var, scope.op->add_result(init.type())});
  }
  scope.block->reorder_args(arg_order);
  std::vector<Value> operands = scope.op->operand_values();
  operands.insert(operands.end(), inits.begin(), inits.end());
  std::vector<std::uint32_t> sizes(scope.op->num_operands(), 1);
  sizes.push_back(static_cast<std::uint32_t>(inits.size()));
  scope.op->set_operands(operands, sizes);
  ir::Builder at_end(*scope.block);
  at_end.loc = scope.loc;
  at_end.create(Op::Continue, yields, {});
  if (scope.break_op) {
    const std::uint32_t count = static_cast<std::uint32_t>(breaks.size());
    scope.break_op->set_operands(breaks, std::span(&count, 1));
  }
  for (const Final& r : results) bind(r.var, r.value);
}

void Tracer::Impl::close_if(Scope scope) {
  const std::vector<Final> otherwise = take_bindings(scope);
  std::vector<Value> yields[2];
  std::vector<Final> results;
  const auto in_then = places(scope.then_values), in_else = places(otherwise);
  auto value_in = [&](const std::vector<Final>& arm, const auto& place, std::uint32_t v) {
    const auto it = place.find(v);
    return it != place.end() ? arm[it->second].value : read(v);
  };
  std::unordered_set<std::uint32_t> merged;
  auto merge = [&](std::uint32_t v) {
    if (merged.contains(v)) return;
    const Value a = value_in(scope.then_values, in_then, v), b = value_in(otherwise, in_else, v);
    if (a == b) {
      bind(v, a);
      return;
    }
    yields[0].push_back(a);
    yields[1].push_back(b);
    merged.insert(v);
    results.push_back({v, scope.op->add_result(a.type())});
  };
  for (const Final& f : scope.then_values) merge(f.var);
  for (const Final& f : otherwise) merge(f.var);
  for (std::size_t arm : {0u, 1u}) {
    ir::Builder at_end(scope.op->region(arm));
    at_end.loc = scope.loc;
    at_end.create(Op::Yield, yields[arm], {});
  }
  for (const Final& r : results) bind(r.var, r.value);
}

void Tracer::Impl::close_combiner(Scope scope) {
  for (const std::uint32_t v : scope.order) variables.unbind(v);
  for (const Operation& op : *scope.block) {
    if (op.info().has(ir::traits::Terminator)) continue;
    const bool scalar = op.num_results() == 1 && op.result().type().is_tile() && op.result().type().rank() == 0;
    if (!op.info().has(ir::traits::Pure) || !scalar)
      throw TraceError(concat("a function given to reduce or scan may only compute with scalars; it recorded `",
                              op.info().mnemonic, "`"),
                       op.loc);
  }
}

Value Tracer::open_for(Value lo, Value hi, Value step, bool is_unsigned, SourceLocation loc) {
  Operation* op = at(loc).create(Op::For, {lo, hi, step}, {});
  if (is_unsigned) op->set_attr(ir::AttrName::unsignedCmp, ir::UnitAttr{});
  Block& body = op->add_region();
  const Value induction = body.add_arg(lo.type());
  impl_->open(RegionKind::For, body, op, loc);
  return induction;
}

void Tracer::open_loop(SourceLocation loc) {
  Operation* op = at(loc).create(Op::Loop, {}, {});
  impl_->open(RegionKind::Loop, op->add_region(), op, loc);
}

void Tracer::break_unless(Value condition) {
  Impl& s = *impl_;
  Scope& scope = s.top();
  if (scope.kind != RegionKind::Loop || scope.tests_condition)
    throw InternalError("break_unless outside the start of a loop");
  scope.tests_condition = true;
  Operation* test = s.builder.create(Op::If, {condition}, {});
  ir::Builder go_on(test->add_region()), leave(test->add_region());
  go_on.loc = leave.loc = scope.loc;
  go_on.create(Op::Yield, {}, {});
  scope.break_op = leave.create(Op::Break, {}, {});
  for (const std::uint32_t v : scope.order) scope.at_break.push_back({v, s.variables.innermost(v)->value});
}

void Tracer::open_if(Value condition, SourceLocation loc) {
  Operation* op = at(loc).create(Op::If, {condition}, {});
  Block& then_block = op->add_region();
  op->add_region();
  impl_->open(RegionKind::Then, then_block, op, loc);
}

void Tracer::open_else() {
  Impl& s = *impl_;
  if (s.top().kind != RegionKind::Then)
    throw TraceError("an `else` was reached whose `tile_if` is not the innermost open region", s.top().loc);
  Scope then_scope = s.pop();
  std::vector<Final> values = s.take_bindings(then_scope);
  s.open(RegionKind::Else, then_scope.op->region(1), then_scope.op, then_scope.loc).then_values = std::move(values);
}

void Tracer::open_combiner(Operation* op, SourceLocation loc) {
  (void)at(loc);
  impl_->open(RegionKind::Combiner, op->region(0), op, loc);
}

void Tracer::close() {
  Impl& s = *impl_;
  if (s.depth() == 0) throw InternalError("close: no region is open");
  if (s.top().kind == RegionKind::Then) open_else();
  Scope scope = s.pop();
  switch (scope.kind) {
    case RegionKind::For:
    case RegionKind::Loop: return s.close_loop(std::move(scope));
    case RegionKind::Then:
    case RegionKind::Else: return s.close_if(std::move(scope));
    case RegionKind::Combiner: return s.close_combiner(std::move(scope));
    case RegionKind::Kernel: break;
  }
}

void Tracer::abandon() noexcept {
  Impl& s = *impl_;
  if (s.depth() == 0) return;
  s.abandoned = true;
  const Scope scope = s.pop();
  for (const std::uint32_t v : scope.order) s.variables.unbind(v);
}

std::size_t Tracer::depth() const { return impl_->depth(); }

bool Tracer::untouched() const { return impl_->top().block->empty() && impl_->top().order.empty(); }

// ---- emission -----------------------------------------------------------------------------------------------------

ir::Builder& Tracer::at(SourceLocation loc) {
  if (loc.known()) impl_->builder.loc = loc;
  return here();
}

ir::Builder& Tracer::here() {
  impl_->check_stack();
  if (impl_->scopes.size() > kMaxDepth)
    impl_->error(
        concat("more than ", kMaxDepth, " regions are open inside each other: does a helper function call itself?"));
  return impl_->builder;
}

SourceLocation Tracer::location() const { return impl_->builder.loc; }

Value Tracer::add_param(Type type) { return impl_->function.body().add_arg(type); }

ir::Builder& Tracer::prologue() { return impl_->start; }

void Tracer::decide_later(Operation& op) { impl_->undecided.push_back(&op); }

// ---- the trace as a whole -------------------------------------------------------------------------------------------

Tracer::Tracer(std::string kernel_name, SourceLocation where) {
  int nesting = 0;
  for (const Tracer* t = current_tracer; t != nullptr; t = t->impl_->outer) {
    if (t->impl_->name == kernel_name || ++nesting == kMaxNesting)
      throw TraceError(concat("kernel ", kernel_name, " was traced while ", t->impl_->name,
                              " is being traced: a kernel cannot call itself or launch kernels"),
                       where);
  }
  impl_ = std::make_unique<Impl>(std::move(kernel_name), where);
  impl_->outer = current_tracer;
  current_tracer = this;
}

Tracer::~Tracer() {
  last_trace.name = std::move(impl_->name);
  last_trace.where = impl_->where;
  current_tracer = impl_->outer;
}

std::string outside_kernel() {
  std::string text = ": tiles and kernel parameters exist only while their kernel is being traced.";
  if (last_trace.name.empty()) return text + " No kernel was traced on this thread yet.";
  return concat(text, " The last kernel that this thread traced is ", last_trace.name,
                last_trace.where.known() ? concat(" (", last_trace.where.file, ":", last_trace.where.line, ")") : "",
                ": does something static, captured or returned keep a tile of it?");
}

Tracer* Tracer::maybe() noexcept { return current_tracer; }
const std::string& Tracer::kernel_name() const { return impl_->name; }

Tracer& Tracer::current(SourceLocation where) {
  if (!current_tracer) throw TraceError(concat("a tile was used outside a kernel", outside_kernel()), where);
  return *current_tracer;
}

void Tracer::fail(std::string message, SourceLocation where) noexcept {
  if (!impl_->failure) impl_->failure.emplace(message, where);
}

std::unique_ptr<ir::Module> Tracer::finish() {
  Impl& s = *impl_;
  if (s.failure) throw *s.failure;
  if (s.abandoned) throw TraceError("an exception left a loop or branch of this kernel and was swallowed", s.where);
  if (s.depth() != 0) throw TraceError("a loop or branch was still open when the kernel returned", s.top().loc);
  s.builder.loc = s.where;
  s.builder.create(Op::Return, {}, {});
  s.anchor->erase();
  decide_accuracy(s.function, s.undecided);
  ir::remove_dead_code(s.function);
  if (s.where.known()) locate_at_first_line(s.function, s.where);
  return std::move(s.module);
}

}  // namespace tessera::lang
