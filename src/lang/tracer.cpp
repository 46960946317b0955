// Variables, regions and their merging. docs/tracing.md tells the whole story.
#include "tessera/lang/tracer.hpp"

#include <algorithm>
#include <atomic>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/dead_code.hpp"

namespace tessera::lang {

namespace {

using ir::Block;
using ir::Operation;
using ir::Value;

enum class RegionKind : std::uint8_t { Body, For, Loop, Then, Else };

/// Variable -> current value of one region, in the order of first touch, so that what is recorded does not depend on
/// hashing.
struct Definitions {
  std::unordered_map<Var, Value> values;
  std::vector<Var> order;

  const Value* find(Var v) const {
    auto it = values.find(v);
    return it == values.end() ? nullptr : &it->second;
  }
  void set(Var v, Value x) {
    if (values.insert_or_assign(v, x).second) order.push_back(v);
  }
  void replace(Value from, Value to) {
    for (auto& [var, value] : values)
      if (value == from) value = to;
  }
};

/// A provisional argument of a loop: the variable was read before it was assigned in the body.
struct Incoming {
  Var var;
  Value outer, arg;
};

struct Region {
  RegionKind kind;
  Block* block;
  Operation* op;  ///< the loop or `if`; null for the kernel's body
  Definitions defs;
  std::vector<Incoming> incoming;  ///< loops
  Definitions then_defs;           ///< Else: what the true arm assigned
  Definitions at_break;            ///< Loop: the variables where the condition is tested
  Operation* break_op = nullptr;   ///< Loop
  bool recorded = false;           ///< something was recorded or assigned since it was opened
};

thread_local Tracer* current_tracer = nullptr;

constexpr int kMaxDepth = 256;        // open regions
constexpr int kMaxNestedTraces = 16;  // kernels recorded while another is being recorded on the same thread

bool is_loop(RegionKind kind) { return kind == RegionKind::For || kind == RegionKind::Loop; }

}  // namespace

struct Tracer::Impl {
  std::string kernel;
  SourceLocation where;
  std::unique_ptr<ir::Module> module = std::make_unique<ir::Module>();
  ir::Function* function = nullptr;
  std::uint32_t serial = 0;
  std::uint32_t next_var = 0;
  std::vector<Region> regions;
  ir::Builder builder;
  Operation* prologue_end = nullptr;  ///< a marker: the prologue grows before it, the body after it
  ir::Builder prologue_builder;
  std::vector<std::pair<std::string, SourceLocation>> failures;
  Tracer* outer = nullptr;
  int nesting = 0;

  explicit Impl(ir::Function& f) : function(&f), builder(f.body()), prologue_builder(f.body()) {}

  Region& top() { return regions.back(); }
  Value read_at(Var v, std::size_t depth);
  bool visible(Var v) const;
  void open(RegionKind kind, Operation* op, Block& block, SourceLocation loc);
  void drop_unassigned(Region& r);
  void close_loop(Region r);
  void close_if(Region r);
  void terminate(Block& block, ir::Op op, std::span<const Value> values, SourceLocation loc);
};

// ---- life -------------------------------------------------------------------------------------------------------

Tracer::Tracer(std::string kernel_name, SourceLocation where) {
  static std::atomic<std::uint32_t> serials{0};
  auto module = std::make_unique<ir::Module>();
  ir::Function& function = module->add_function(kernel_name);
  function.loc = where;
  impl_ = std::make_unique<Impl>(function);
  impl_->module = std::move(module);
  impl_->kernel = std::move(kernel_name);
  impl_->where = where;
  impl_->serial = ++serials;
  impl_->outer = current_tracer;
  impl_->nesting = current_tracer ? current_tracer->impl_->nesting + 1 : 0;
  if (impl_->nesting >= kMaxNestedTraces)
    throw TraceError(concat("kernel ", impl_->kernel, " is recorded while ", kMaxNestedTraces,
                            " others are: a kernel may not call itself"),
                     where);
  impl_->builder.loc = where;
  impl_->regions.push_back({RegionKind::Body, &function.body(), nullptr, {}, {}, {}, {}, nullptr, false});
  impl_->prologue_end = impl_->builder.create(ir::Op::MakeToken, {}, {ir::Type::token()});
  impl_->prologue_builder = ir::Builder::before(impl_->prologue_end);
  impl_->prologue_builder.loc = where;
  current_tracer = this;
}

Tracer::~Tracer() {
  if (current_tracer == this) current_tracer = impl_->outer;
}

Tracer* Tracer::maybe() noexcept { return current_tracer; }

Tracer& Tracer::current() {
  if (!current_tracer)
    throw TraceError("a tile operation was used outside a kernel: tiles exist only while a kernel is being recorded");
  return *current_tracer;
}

// ---- emission ---------------------------------------------------------------------------------------------------

ir::Builder& Tracer::at(SourceLocation loc) {
  if (loc.known()) impl_->builder.loc = loc;
  return here();
}
ir::Builder& Tracer::here() {
  impl_->top().recorded = true;
  return impl_->builder;
}
SourceLocation Tracer::location() const { return impl_->builder.loc; }
ir::Builder& Tracer::prologue() { return impl_->prologue_builder; }
Value Tracer::add_param(ir::Type type) { return impl_->function->body().add_arg(type); }
std::size_t Tracer::depth() const { return impl_->regions.size(); }
bool Tracer::untouched() const { return !impl_->top().recorded; }

// ---- variables --------------------------------------------------------------------------------------------------

Var Tracer::fresh(Value initial) {
  const Var v = static_cast<Var>(impl_->serial) << 32 | impl_->next_var++;
  impl_->top().defs.set(v, initial);
  return v;
}

void Tracer::check_alive(Var v) const {
  if (v >> 32 != impl_->serial)
    throw TraceError(
        "a tile of another kernel, or of an earlier recording, is used here: a tile lives only inside the "
        "recording that made it. Do not keep tiles in static or global variables",
        location());
  if (!impl_->visible(v))
    throw TraceError(
        "a tile that was made inside a loop or branch is used after it has ended. Declare it before the loop or "
        "branch and assign it inside",
        location());
}

Value Tracer::read(Var v) {
  check_alive(v);
  return impl_->read_at(v, impl_->regions.size());
}

void Tracer::write(Var v, Value value) {
  check_alive(v);
  impl_->top().recorded = true;
  impl_->top().defs.set(v, value);
}

bool Tracer::Impl::visible(Var v) const {
  return std::any_of(regions.begin(), regions.end(), [&](const Region& r) { return r.defs.find(v) != nullptr; });
}

Value Tracer::Impl::read_at(Var v, std::size_t depth) {
  Region& r = regions[depth - 1];
  if (const Value* known = r.defs.find(v)) return *known;
  const Value outer = read_at(v, depth - 1);
  if (!is_loop(r.kind)) return outer;  // what dominates the `if` dominates its arms
  const Value arg = r.block->add_arg(outer.type());
  r.incoming.push_back({v, outer, arg});
  r.defs.set(v, arg);
  return arg;
}

// ---- opening regions --------------------------------------------------------------------------------------------

void Tracer::Impl::open(RegionKind kind, Operation* op, Block& block, SourceLocation loc) {
  if (regions.size() >= kMaxDepth)
    throw TraceError(
        concat("more than ", kMaxDepth, " loops and branches are nested: does a helper call itself inside one?"), loc);
  regions.push_back({kind, &block, op, {}, {}, {}, {}, nullptr, false});
  builder.set_to_end(block);
}

Value Tracer::open_for(Value lo, Value hi, Value step, bool is_unsigned, SourceLocation loc) {
  at(loc);
  const Value bounds[] = {lo, hi, step};
  const std::uint32_t sizes[] = {1, 1, 1, 0};
  Operation* op = impl_->builder.create_grouped(ir::Op::For, bounds, sizes, {});
  if (is_unsigned) op->set_attr(ir::AttrName::unsignedCmp, ir::UnitAttr{});
  Block& body = op->add_region();
  const Value induction = body.add_arg(lo.type());
  impl_->open(RegionKind::For, op, body, loc);
  return induction;
}

void Tracer::open_loop(SourceLocation loc) {
  at(loc);
  const std::uint32_t sizes[] = {0};
  Operation* op = impl_->builder.create_grouped(ir::Op::Loop, {}, sizes, {});
  impl_->open(RegionKind::Loop, op, op->add_region(), loc);
}

void Tracer::break_unless(Value condition) {
  Region& r = impl_->top();
  if (r.kind != RegionKind::Loop) throw InternalError("break_unless outside a loop");
  ir::Builder& b = here();
  Operation* branch = b.create(ir::Op::If, {condition}, {});
  b.set_to_end(branch->add_region());
  const std::uint32_t none[] = {0};
  b.create_grouped(ir::Op::Yield, {}, none, {});
  b.set_to_end(branch->add_region());
  r.break_op = b.create_grouped(ir::Op::Break, {}, none, {});
  b.set_to_end(*r.block);
  r.at_break = r.defs;
  r.recorded = false;
}

void Tracer::open_if(Value condition, SourceLocation loc) {
  ir::Builder& b = at(loc);
  Operation* op = b.create(ir::Op::If, {condition}, {});
  impl_->open(RegionKind::Then, op, op->add_region(), loc);
}

void Tracer::open_else() {
  Region then = std::move(impl_->top());
  if (then.kind != RegionKind::Then) throw InternalError("open_else without an open true arm");
  impl_->regions.pop_back();
  impl_->open(RegionKind::Else, then.op, then.op->add_region(), then.op->loc);
  impl_->top().then_defs = std::move(then.defs);
}

// ---- closing regions --------------------------------------------------------------------------------------------

void Tracer::close() {
  if (impl_->top().kind == RegionKind::Body) throw InternalError("close without an open region");
  if (impl_->top().kind == RegionKind::Then) open_else();
  Region r = std::move(impl_->top());
  impl_->regions.pop_back();
  impl_->builder.set_to_end(*impl_->top().block);
  if (is_loop(r.kind))
    impl_->close_loop(std::move(r));
  else
    impl_->close_if(std::move(r));
  impl_->top().recorded = true;
}

void Tracer::abandon() noexcept {
  Region r = std::move(impl_->top());
  impl_->regions.pop_back();
  impl_->builder.set_to_end(*impl_->top().block);
}

void Tracer::Impl::terminate(Block& block, ir::Op op, std::span<const Value> values, SourceLocation loc) {
  ir::Builder b(block);
  b.loc = loc;
  const std::uint32_t sizes[] = {static_cast<std::uint32_t>(values.size())};
  b.create_grouped(op, values, sizes, {});
}

/// Arguments of variables that the body never assigned give way to the value from outside.
void Tracer::Impl::drop_unassigned(Region& r) {
  std::erase_if(r.incoming, [&](const Incoming& in) {
    if (*r.defs.find(in.var) != in.arg) return false;
    in.arg.replace_all_uses_with(in.outer);
    r.defs.replace(in.arg, in.outer);
    r.at_break.replace(in.arg, in.outer);
    r.block->erase_arg(in.arg.index());
    r.defs.values.erase(in.var);
    std::erase(r.defs.order, in.var);
    return true;
  });
}

void Tracer::Impl::close_loop(Region r) {
  drop_unassigned(r);
  const std::size_t fixed_args = r.kind == RegionKind::For ? 1 : 0;
  std::vector<Value> initial, next, at_break;
  std::vector<Var> carried;
  std::vector<std::uint32_t> order(fixed_args, 0);
  for (Var v : r.defs.order) {
    if (!visible(v)) continue;  // declared in the body
    auto in = std::find_if(r.incoming.begin(), r.incoming.end(), [&](const Incoming& i) { return i.var == v; });
    const Value outer = in != r.incoming.end() ? in->outer : read_at(v, regions.size());
    const Value arg = in != r.incoming.end() ? in->arg : r.block->add_arg(outer.type());
    carried.push_back(v);
    order.push_back(arg.index());
    initial.push_back(outer);
    next.push_back(*r.defs.find(v));
    const Value* tested = r.at_break.find(v);
    at_break.push_back(tested ? *tested : arg);
  }
  r.block->reorder_args(order);
  terminate(*r.block, ir::Op::Continue, next, r.op->loc);
  if (r.break_op) {
    const std::uint32_t sizes[] = {static_cast<std::uint32_t>(at_break.size())};
    r.break_op->set_operands(at_break, sizes);
  }
  std::vector<Value> operands = r.op->operand_values();
  std::vector<std::uint32_t> sizes(r.op->group_sizes().begin(), r.op->group_sizes().end());
  operands.insert(operands.end(), initial.begin(), initial.end());
  sizes.back() = static_cast<std::uint32_t>(initial.size());
  r.op->set_operands(operands, sizes);
  for (std::size_t i = 0; i < carried.size(); ++i) top().defs.set(carried[i], r.op->add_result(initial[i].type()));
}

void Tracer::Impl::close_if(Region r) {
  std::vector<Var> assigned;
  for (const Definitions* defs : {&r.then_defs, &r.defs})
    for (Var v : defs->order)
      if (visible(v) && std::find(assigned.begin(), assigned.end(), v) == assigned.end()) assigned.push_back(v);
  std::vector<Value> arms[2];
  for (Var v : assigned) {
    const Value before = read_at(v, regions.size());
    const Value* then_value = r.then_defs.find(v);
    const Value* else_value = r.defs.find(v);
    arms[0].push_back(then_value ? *then_value : before);
    arms[1].push_back(else_value ? *else_value : before);
  }
  for (std::size_t arm : {0, 1}) terminate(r.op->region(arm), ir::Op::Yield, arms[arm], r.op->loc);
  for (std::size_t i = 0; i < assigned.size(); ++i) top().defs.set(assigned[i], r.op->add_result(arms[0][i].type()));
}

// ---- the end ----------------------------------------------------------------------------------------------------

void Tracer::fail(std::string message, SourceLocation where) noexcept {
  impl_->failures.emplace_back(std::move(message), where);
}

std::unique_ptr<ir::Module> Tracer::finish() {
  if (!impl_->failures.empty()) {
    const auto& [message, where] = impl_->failures.front();
    throw TraceError(concat("kernel ", impl_->kernel, ": ", message), where);
  }
  if (impl_->regions.size() != 1)
    throw TraceError(concat("kernel ", impl_->kernel, ": a loop or branch was left without being closed"), location());
  const std::uint32_t none[] = {0};
  impl_->builder.create_grouped(ir::Op::Return, {}, none, {});
  impl_->prologue_end->erase();
  ir::remove_dead_code(*impl_->function);
  return std::move(impl_->module);
}

}  // namespace tessera::lang
