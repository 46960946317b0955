// Blocks, and the operations whose text has functions of its own: loops, branches, tensor views.
#include "ir/parser.hpp"
#include "ir/read_limits.hpp"

namespace tessera::ir {

namespace {

int group_of(const OpInfo& info, std::string_view name) { return info.operand_group(name); }

}  // namespace

OperationParser::Scope::Scope(OperationParser& parser) : parser_(parser), first_(parser.defined_.size()) {
  ++parser_.depth_;
}

OperationParser::Scope::~Scope() {
  --parser_.depth_;
  for (std::size_t i = first_; i < parser_.defined_.size(); ++i) parser_.names_.erase(parser_.defined_[i]);
  parser_.defined_.resize(first_);
}

void OperationParser::block_arguments(Block& block) {
  in_.expect("(");
  while (!in_.take(")")) {
    if (block.num_args() != 0) in_.expect(",");
    in_.skip();
    const std::size_t start = in_.at();
    const Name name{in_.value_name(), start};
    in_.expect(":");
    const Value v = block.add_arg(parts_.type());
    define(name, {&v, 1});
  }
}

void OperationParser::body(Block& block, Op implicit) {
  if (depth_ > kMaxRegionDepth)
    in_.fail_at(in_.at(), concat("expected at most ", kMaxRegionDepth, " regions in each other, found more"));
  in_.expect("{");
  while (!in_.take("}")) {
    if (in_.at_end()) in_.fail("`}`");
    statement(block);
  }
  if (implicit != Op::Return && !block.terminator()) Builder(block).create(implicit, {}, {});
}

/// `(%a: type, ...) [optimization_hints=<...>] { ... } [loc(...)]`
void OperationParser::function(Function& f) {
  const Scope scope(*this);
  block_arguments(f.body());
  if (in_.take("optimization_hints=")) f.hints = parts_.hints();
  body(f.body(), Op::Return);
  f.loc = parts_.location();
}

void OperationParser::region(Draft& d) {
  Block& block = create(d)->add_region();
  const Scope scope(*this);
  block_arguments(block);
  body(block, Op::Return);
}

void OperationParser::custom(Draft& d) {
  switch (d.info->op) {
    case Op::For: return for_op(d);
    case Op::Loop: return loop_op(d);
    case Op::If: return if_op(d);
    default: return tensor_view(d);
  }
}

/// `(%a = %x, ...)`: names of arguments, and their initial values.
std::vector<OperationParser::Name> OperationParser::iteration_values(Draft& d, int group) {
  std::vector<Name> names;
  in_.expect("(");
  while (!in_.take(")")) {
    if (!names.empty()) in_.expect(",");
    in_.skip();
    const std::size_t start = in_.at();
    names.push_back({in_.value_name(), start});
    in_.expect("=");
    add_value(d, group, use());
  }
  return names;
}

/// `[unsigned] %i in (%low to %high, step %step) : T [iter_values(...) -> (types)] { ... }`
void OperationParser::for_op(Draft& d) {
  const OpInfo& info = *d.info;
  if (in_.take("unsigned")) d.attributes.push_back({AttrName::unsignedCmp, UnitAttr{}});
  in_.skip();
  const std::size_t start = in_.at();
  const Name induction{in_.value_name(), start};
  in_.expect("in (");
  values(d, group_of(info, "lowerBound"), false);
  in_.expect("to");
  values(d, group_of(info, "upperBound"), false);
  in_.expect(", step");
  values(d, group_of(info, "step"), false);
  in_.expect(") :");
  const Type bound = d.values[0].type();
  expect_type(bound, "the bounds");
  const int carried = group_of(info, "initValues");
  std::vector<Name> names;
  if (in_.take("iter_values")) {
    names = iteration_values(d, carried);
    in_.expect("-> (");
    operand_types(d, carried);
    in_.expect(")");
  }
  const std::size_t first = d.values.size() - names.size();
  for (std::size_t i = first; i < d.values.size(); ++i) d.results[0].push_back(d.values[i].type());
  Block& block = create(d)->add_region();
  const Scope scope(*this);
  const Value index = block.add_arg(bound);
  define(induction, {&index, 1});
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Value v = block.add_arg(d.values[first + i].type());
    define(names[i], {&v, 1});
  }
  body(block, Op::Continue);
}

/// `[iter_values(...)] [: types [-> types]] { ... }`; without iteration values the types are those of the results.
void OperationParser::loop_op(Draft& d) {
  const int carried = group_of(*d.info, "initValues");
  std::vector<Name> names;
  if (in_.take("iter_values")) names = iteration_values(d, carried);
  if (names.empty()) {
    if (in_.take(":")) d.results[0] = type_list();
  } else {
    in_.expect(":");
    operand_types(d, carried);
    if (in_.take("->")) d.results[0] = type_list();
  }
  Block& block = create(d)->add_region();
  const Scope scope(*this);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Value v = block.add_arg(d.values[i].type());
    define(names[i], {&v, 1});
  }
  body(block, Op::Continue);
}

/// `%c [-> (types)] { ... } [else { ... }]`
void OperationParser::if_op(Draft& d) {
  values(d, group_of(*d.info, "condition"), false);
  if (in_.take("->")) {
    in_.expect("(");
    if (!in_.is_next(")")) d.results[0] = type_list();
    in_.expect(")");
  }
  Operation* op = create(d);
  do {
    const Scope scope(*this);
    body(op->add_region(), Op::Yield);
  } while (op->num_regions() == 1 && in_.take("else"));
}

/// `shape = [...]`: numbers, and values for dynamic entries.
std::vector<std::pair<std::int64_t, Value>> OperationParser::view_entries(std::string_view keyword) {
  std::vector<std::pair<std::int64_t, Value>> entries;
  in_.expect(keyword);
  in_.expect("= [");
  while (!in_.take("]")) {
    if (!entries.empty()) in_.expect(",");
    if (in_.peek() == '%')
      entries.emplace_back(kDynamic, use());
    else
      entries.emplace_back(in_.integer("a number or a value", 0, INT64_MAX), Value());
  }
  return entries;
}

void OperationParser::check_entries(Draft& d, const std::vector<std::pair<std::int64_t, Value>>& entries,
                                    std::span<const std::int64_t> of_type, std::size_t at, const char* what) {
  if (entries.size() != of_type.size())
    in_.fail_at(at, concat("expected ", of_type.size(), " entries of ", what, ", found ", entries.size()));
  const int group = group_of(*d.info, what == std::string_view("shape") ? "dynamicShape" : "dynamicStrides");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].first != of_type[i])
      in_.fail_at(at, concat("expected the ", what, " of the view's type, found another entry ", i));
    if (entries[i].second) add_value(d, group, entries[i].second);
  }
}

/// `%base, shape = [...], strides = [...] : [T ->] tensor_view<...>`, with the type T of dynamic entries.
void OperationParser::tensor_view(Draft& d) {
  values(d, group_of(*d.info, "base"), false);
  in_.expect(",");
  const std::size_t at_shape = in_.at();
  const auto shape = view_entries("shape");
  in_.expect(",");
  const std::size_t at_strides = in_.at();
  const auto strides = view_entries("strides");
  in_.expect(":");
  Value dynamic;
  for (const auto* entries : {&strides, &shape})
    for (auto entry = entries->rbegin(); entry != entries->rend(); ++entry)
      if (entry->second) dynamic = entry->second;
  if (dynamic) {
    expect_type(dynamic.type(), "the dynamic entries");
    in_.expect("->");
  }
  in_.skip();
  const std::size_t at_type = in_.at();
  const Type view = parts_.type();
  if (view.kind() != TypeKind::TensorView) in_.fail_at(at_type, concat("expected a tensor_view, found ", view.str()));
  check_entries(d, shape, view.shape(), at_shape, "shape");
  check_entries(d, strides, view.strides(), at_strides, "strides");
  d.results[0] = {view};
}

}  // namespace tessera::ir
