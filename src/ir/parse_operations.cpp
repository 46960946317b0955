// Operations by their rows: what stands left of `=`, the items of the row, the results.
#include "ir/parser.hpp"
#include "ir/read_limits.hpp"

namespace tessera::ir {

namespace {

using Kind = FormatItem::Kind;

/// A name that stands for results of an operation that could not be read; there is a problem about it already.
struct Unreadable {};

/// The only type of a class; null if it has several.
Type only_type(TypeClass of) {
  if (of == TypeClass::Token) return Type::token();
  return of == TypeClass::ScalarI32 ? Type::tile(Elem::I32) : Type();
}

std::string values_text(std::size_t n) { return concat(n, n == 1 ? " result" : " results"); }

}  // namespace

// ---- names ------------------------------------------------------------------------------------------------------

void OperationParser::define(const Name& name, std::span<const Value> values) {
  const auto [at, added] = names_.try_emplace(name.text, Named{pool_.size(), values.size()});
  if (!added) in_.fail_at(name.at, concat("%", name.text, " is defined twice"));
  defined_.push_back(name.text);
  pool_.insert(pool_.end(), values.begin(), values.end());
}

/// The names of what could not be read stand for nothing.
void OperationParser::poison(const Draft& d) {
  for (const Name& name : d.names)
    if (names_.try_emplace(name.text, Named{}).second) defined_.push_back(name.text);
}

Value OperationParser::use() {
  in_.skip();
  const std::size_t start = in_.at();
  const std::string_view name = in_.value_name();
  std::size_t number = 0;
  if (in_.at() < in_.text().size() && in_.text()[in_.at()] == '#') {
    in_.move_to(in_.at() + 1);
    number = static_cast<std::size_t>(in_.integer("the number of a result", 0, UINT32_MAX));
  }
  const auto found = names_.find(name);
  if (found == names_.end())
    in_.fail_at(start, concat("expected a value that is defined before its use, found %", name));
  const Named& named = found->second;
  if (named.count == 0) throw Unreadable{};
  if (number >= named.count)
    in_.fail_at(start, concat("expected a number below ", named.count, " after %", name, "#, found ", number));
  return pool_[named.first + number];
}

void OperationParser::add_value(Draft& d, int group, Value v) {
  Range& range = d.groups[static_cast<std::size_t>(group)];
  if (range.count == 0) range.first = d.values.size();
  range.read = true;
  ++range.count;
  d.values.push_back(v);
}

void OperationParser::values(Draft& d, int group, bool several) {
  d.groups[static_cast<std::size_t>(group)].read = true;
  if (several && in_.peek() != '%') return;
  add_value(d, group, use());
  while (several && in_.take(",")) add_value(d, group, use());
}

// ---- types ------------------------------------------------------------------------------------------------------

void OperationParser::expect_type(Type expected, const char* of) {
  in_.skip();
  const std::size_t start = in_.at();
  if (const Type found = parts_.type(); found != expected)
    in_.fail_at(start, concat("expected the type ", expected.str(), " of ", of, ", found ", found.str()));
}

void OperationParser::operand_types(Draft& d, int group) {
  const Range range = d.groups[static_cast<std::size_t>(group)];
  for (std::size_t i = 0; i < range.count; ++i) {
    if (i != 0) in_.expect(",");
    expect_type(d.values[range.first + i].type(), "the operand");
  }
}

/// One type if all indices have it, else one for each.
void OperationParser::index_types(Draft& d, int group) {
  const Range range = d.groups[static_cast<std::size_t>(group)];
  bool equal = true;
  for (std::size_t i = 1; i < range.count; ++i)
    equal = equal && d.values[range.first + i].type() == d.values[range.first].type();
  for (std::size_t i = 0; i < (equal ? std::min<std::size_t>(range.count, 1) : range.count); ++i) {
    if (i != 0) in_.expect(",");
    expect_type(d.values[range.first + i].type(), "the index");
  }
}

std::vector<Type> OperationParser::type_list() {
  std::vector<Type> types{parts_.type()};
  while (in_.take(",")) types.push_back(parts_.type());
  return types;
}

/// Results of one type: as many as have names.
void OperationParser::one_type(Draft& d, int result) {
  if (d.named == 0) return;
  // One for each axis; the number stands in the text and may be any.
  if (d.named > kMaxAxes) in_.fail(concat("at most ", kMaxAxes, " results"));
  d.results[static_cast<std::size_t>(result)].assign(d.named, parts_.type());
}

void OperationParser::inferred(Draft& d, const FormatItem& item) {
  Type type;
  if (item.group >= 0) {
    const Range range = d.groups[static_cast<std::size_t>(item.group)];
    if (range.count != 0) type = d.values[range.first].type();
  } else {
    for (const NamedAttr& a : d.attributes)
      if (a.name == item.attribute->name) type = a.value.as<DenseAttr>()->type;
  }
  if (type) d.results[static_cast<std::size_t>(item.result)] = {type};
}

// ---- the items of a row -----------------------------------------------------------------------------------------

/// Whether what the Optional item `i` encloses is next.
bool OperationParser::is_there(const Draft& d, std::span<const FormatItem> items, std::size_t i) {
  const FormatItem& optional = items[i];
  if (optional.group >= 0 && d.groups[static_cast<std::size_t>(optional.group)].read)
    return d.groups[static_cast<std::size_t>(optional.group)].count != 0;
  const FormatItem& first = items[i + 1];
  if (first.kind == Kind::Values) return in_.peek() == '%';
  if (first.kind == Kind::Attribute) return enum_value(first.attribute->kind, in_.peek_word()) >= 0;
  return in_.is_next(first.text);
}

/// `^name`: a flag by its name, an enumeration as keyword<value>; absent: what the table implies.
void OperationParser::switched(Draft& d, const AttrInfo& attribute) {
  const std::string_view name = text(attribute.name);
  if (attribute.kind == AttrKind::Unit) {
    if (in_.take(name)) d.attributes.push_back({attribute.name, UnitAttr{}});
    return;
  }
  if (!in_.take(attribute.name == AttrName::rounding_mode ? "rounding<" : concat(name, "<"))) return;
  d.attributes.push_back({attribute.name, parts_.attribute(attribute.kind)});
  in_.expect(">");
}

void OperationParser::item(Draft& d, const FormatItem& item) {
  switch (item.kind) {
    case Kind::Literal: return in_.expect(item.text);
    case Kind::Values: {
      const Arity arity = d.info->operands[static_cast<std::size_t>(item.group)].arity;
      return values(d, item.group, arity == Arity::Variadic);
    }
    case Kind::Types: {
      if (item.group >= 0) return operand_types(d, item.group);
      const auto result = static_cast<std::size_t>(item.result);
      if (d.info->results[result].arity == Arity::Variadic)
        d.results[result] = type_list();
      else
        d.results[result] = {parts_.type()};
      return;
    }
    case Kind::Attribute:
      d.attributes.push_back({item.attribute->name, parts_.attribute(item.attribute->kind)});
      return;
    case Kind::Switch: return switched(d, *item.attribute);
    case Kind::OneType: return one_type(d, item.result);
    case Kind::IndexTypes: return index_types(d, item.group);
    case Kind::Region: return region(d);
    case Kind::Custom: return custom(d);
    case Kind::Inferred: return inferred(d, item);
    case Kind::Optional: return;
  }
}

/// Operands by commas, then the type of the first result.
void OperationParser::without_row(Draft& d) {
  const auto& groups = d.info->operands;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (g != 0) in_.expect(",");
    values(d, static_cast<int>(g), groups[g].arity == Arity::Variadic);
  }
  if (d.info->results.empty()) return;
  in_.expect(":");
  d.results[0] = {parts_.type()};
}

void OperationParser::read_items(Draft& d) {
  d.groups.resize(d.info->operands.size());
  d.results.resize(d.info->results.size());
  const std::span<const FormatItem> items = format_items(d.info->op);
  for (std::size_t i = 0; i < items.size();) {
    if (items[i].kind != Kind::Optional) {
      item(d, items[i++]);
      continue;
    }
    const bool there = is_there(d, items, i);
    if (const int group = items[i].group; group >= 0) d.groups[static_cast<std::size_t>(group)].read = true;
    i = there ? i + 1 : items[i].end;
  }
  if (items.empty()) without_row(d);
}

// ---- operations -------------------------------------------------------------------------------------------------

/// Types that the text leaves out: those of operands, or the only one that the class has.
void OperationParser::fill_results(Draft& d) {
  const auto& declared = d.info->results;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (!d.results[i].empty() || declared[i].arity == Arity::Variadic) continue;
    Type type = only_type(declared[i].type_class);
    if (!type && d.info->has(traits::SameType) && !d.values.empty()) type = d.values[0].type();
    if (type) d.results[i] = {type};
  }
}

Operation* OperationParser::create(Draft& d) {
  fill_results(d);
  std::size_t results = 0;
  for (const auto& types : d.results) results += types.size();
  if (!d.names.empty() && d.named != results)
    in_.fail_at(d.names[0].at,
                concat("expected names for ", values_text(results), " of ", d.info->mnemonic, ", found ", d.named));
  std::vector<Value> operands;
  operands.reserve(d.values.size());
  std::vector<std::uint32_t> sizes;
  for (const Range& range : d.groups) {
    const auto first = d.values.begin() + static_cast<std::ptrdiff_t>(range.first);
    operands.insert(operands.end(), first, first + static_cast<std::ptrdiff_t>(range.count));
    sizes.push_back(static_cast<std::uint32_t>(range.count));
  }
  Operation* op = Builder(*d.block).create_unconnected(d.info->op);
  d.made = op;
  op->set_operands(operands, sizes);
  for (const auto& types : d.results)
    for (Type t : types) op->add_result(t);
  for (NamedAttr& a : d.attributes) op->set_attr(a.name, std::move(a.value));
  places_.emplace_back(op, d.at);
  return op;
}

/// `%a, %b = ` or `%a:2 = `
void OperationParser::result_names(Draft& d) {
  if (in_.peek() != '%') return;
  do {
    in_.skip();
    Name name;
    name.at = in_.at();
    name.text = in_.value_name();
    if (in_.take(":")) name.count = static_cast<std::size_t>(in_.integer("a number of results", 1, UINT32_MAX));
    d.named += name.count;
    d.names.push_back(name);
  } while (in_.take(","));
  in_.expect("=");
}

void OperationParser::operation(Draft& d) {
  result_names(d);
  in_.skip();
  d.at = in_.at();
  const std::string_view name = in_.word();
  d.info = find_op(without_dialect(name));
  if (!d.info || d.info->has(traits::ModuleLevel)) {
    in_.move_to(d.at);
    in_.fail("an operation");
  }
  read_items(d);
  Operation* op = d.made ? d.made : create(d);
  op->loc = parts_.location();
  std::size_t next = 0;
  for (const Name& n : d.names) {
    std::vector<Value> values;
    for (std::size_t i = 0; i < n.count; ++i) values.push_back(op->result(next++));
    define(n, values);
  }
}

void OperationParser::statement(Block& block) {
  in_.skip();
  const std::size_t start = in_.at();
  Draft d;
  d.block = &block;
  try {
    return operation(d);
  } catch (const TextCursor::Stop&) {
  } catch (const Unreadable&) {}
  if (in_.is_full()) throw TooManyProblems{};
  poison(d);
  recover(start);
}

namespace {

/// The quote that ends the string at `at`, or the last character of its line.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at, text.size() - 1);
}

}  // namespace

/// Strings and comments are passed whole, so that braces in them do not count. A line that begins with `(` has the
/// arguments of a region.
void OperationParser::recover(std::size_t start) {
  const std::string_view text = in_.text();
  std::size_t at = start;
  int open = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_string(text, at);
    } else if (c == '/' && text.substr(at).starts_with("//")) {
      at = std::min(text.find('\n', at), text.size()) - 1;  // its end is the end of the line
    } else if (c == '{') {
      ++open;
    } else if (c == '}' && --open < 0) {
      break;
    } else if (c == '\n' && open == 0) {
      in_.move_to(at);
      if (in_.peek() != '(') break;
    }
  }
  in_.move_to(at);
}

}  // namespace tessera::ir
