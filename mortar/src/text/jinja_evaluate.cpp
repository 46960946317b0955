// Expressions, with Python's meaning of every operator.
#include <algorithm>
#include <cmath>

#include "tessera/base/format.hpp"
#include "text/jinja_machine.hpp"
#include "text/utf8.hpp"

namespace mortar::text::jinja {

using tessera::concat;

namespace {

[[noreturn]] void no_operator(const char* op, const Value& a, const Value& b) {
  if (a.is_undefined()) undefined_error(a);
  if (b.is_undefined()) undefined_error(b);
  throw TemplateFailure(concat("expected operands of ", op, " that fit, found ", type_name(a), " and ", type_name(b)));
}

bool as_double(const Value& v, double& out) {
  std::int64_t storage = 0;
  if (const std::int64_t* i = v.integer(storage))
    out = static_cast<double>(*i);
  else if (const double* d = v.as<double>())
    out = *d;
  else
    return false;
  return true;
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

[[noreturn]] void overflow() { throw TemplateFailure("expected whole numbers of 64 bits, found a larger result"); }

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t out = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(out, base, &out)) overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return out;
}

/// As Python's float.__pow__, which rejects what C's pow() answers with an infinity or a NaN.
double power(double base, double exponent) {
  if (base == 0 && exponent < 0 && std::isfinite(exponent))
    throw TemplateFailure("expected a base other than 0 for a negative exponent");
  const double out = std::pow(base, exponent);
  if (!std::isfinite(base) || !std::isfinite(exponent)) return out;
  if (std::isnan(out)) throw TemplateFailure("a power that is a complex number is not supported");
  if (std::isinf(out)) throw TemplateFailure("expected a power within the range of float, found a larger one");
  return out;
}

Value integers(Op op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (op) {
    case Op::Subtract:
      if (__builtin_sub_overflow(a, b, &out)) overflow();
      return out;
    case Op::Multiply:
      if (__builtin_mul_overflow(a, b, &out)) overflow();
      return out;
    case Op::Power: return b < 0 ? Value(power(static_cast<double>(a), static_cast<double>(b))) : Value(power(a, b));
    default: break;
  }
  if (b == 0) throw TemplateFailure("expected a divisor other than 0");
  if (op == Op::Divide) return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) {
    if (op == Op::Modulo) return std::int64_t{0};
    if (__builtin_sub_overflow(std::int64_t{0}, a, &out)) overflow();
    return out;
  }
  return op == Op::FloorDivide ? floor_divide(a, b) : floor_modulo(a, b);
}

Value doubles(Op op, double a, double b) {
  switch (op) {
    case Op::Subtract: return a - b;
    case Op::Multiply: return a * b;
    case Op::Power: return power(a, b);
    default: break;
  }
  if (b == 0) throw TemplateFailure("expected a divisor other than 0");
  if (op == Op::Divide) return a / b;
  // The quotient goes with the remainder, as in Python.
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (op == Op::Modulo) return rest;
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

/// Characters first, first + step, ... before last.
std::string slice_text(std::string_view text, std::int64_t first, std::int64_t last, std::int64_t step) {
  std::vector<std::uint32_t> begins;  // of the characters
  for (std::size_t at = 0; at < text.size(); at += decode_valid(text.data() + at).bytes)
    begins.push_back(static_cast<std::uint32_t>(at));
  begins.push_back(static_cast<std::uint32_t>(text.size()));
  const auto begin = [&](std::int64_t i) { return begins[static_cast<std::size_t>(i)]; };
  if (step == 1)
    return first < last ? std::string(text.substr(begin(first), begin(last) - begin(first))) : std::string();
  std::string out;
  for (std::int64_t i = first; step > 0 ? i < last : i > last; i += step)
    out += text.substr(begin(i), begin(i + 1) - begin(i));
  return out;
}

}  // namespace

Value Machine::evaluate(const Expression& e) {
  const Deeper deeper(*this);
  spend(1);
  line_ = e.line;
  switch (e.op) {
    case Op::Constant: return e.constant;
    case Op::Name: return name(e.variable, e.name);
    case Op::List:
    case Op::Tuple:
      return make_list(arguments_of(e, 0).positional, e.op == Op::Tuple ? Sequence::Tuple : Sequence::List);
    case Op::Dict: {
      std::vector<std::pair<Value, Value>> items;
      for (std::size_t i = 0; i < e.operands.size(); i += 2) {
        Value key = evaluate(*e.operands[i]);
        items.emplace_back(std::move(key), evaluate(*e.operands[i + 1]));
      }
      return make_dict(std::move(items));
    }
    case Op::Attribute: return attribute(evaluate(*e.operands[0]), e.name);
    case Op::Item: {
      const Value of = evaluate(*e.operands[0]);
      return item(of, evaluate(*e.operands[1]));
    }
    case Op::Slice: return slice(e);
    case Op::Call: return call_expression(e);
    case Op::And: {
      Value left = evaluate(*e.operands[0]);
      return truth(left) ? evaluate(*e.operands[1]) : left;
    }
    case Op::Or: {
      Value left = evaluate(*e.operands[0]);
      return truth(left) ? left : evaluate(*e.operands[1]);
    }
    case Op::Not: return !truth(evaluate(*e.operands[0]));
    case Op::Conditional:
      if (truth(evaluate(*e.operands[0]))) return evaluate(*e.operands[1]);
      return e.operands[2] != nullptr ? evaluate(*e.operands[2])
                                      : Value::undefined("the condition was false and there is no else");
    case Op::Compare: return compare_all(e);
    default: return operation(e);
  }
}

Value Machine::operation(const Expression& e) {
  if (e.op == Op::Filter || e.op == Op::Test) {
    const Value of = evaluate(*e.operands[0]);
    const Arguments arguments = arguments_of(e, 1);
    line_ = e.line;
    return e.op == Op::Filter ? filter(e.name, of, arguments) : Value(test(e.name, of, arguments));
  }
  if (e.op == Op::Concat) {
    Output out = buffer();
    for (const ExpressionPtr& part : e.operands) write_str(evaluate(*part), out);
    return text(out.take());
  }
  if (e.op == Op::Negative || e.op == Op::Positive) {
    const Value v = evaluate(*e.operands[0]);
    std::int64_t storage = 0;
    if (const std::int64_t* i = v.integer(storage))
      return e.op == Op::Positive ? Value(*i) : integers(Op::Subtract, 0, *i);
    if (const double* d = v.as<double>()) return e.op == Op::Positive ? *d : -*d;
    no_operator("a sign", v, v);
  }
  return arithmetic(e);
}

Value Machine::arithmetic(const Expression& e) {
  Value a = evaluate(*e.operands[0]), b = evaluate(*e.operands[1]);
  line_ = e.line;
  if (e.op == Op::Add) return add(a, b);
  std::int64_t i = 0, j = 0;
  if (e.op == Op::Modulo && a.is_string()) throw TemplateFailure("% after a string is not supported");
  if (e.op == Op::Multiply && a.integer(i) != nullptr && (b.is_string() || b.list() != nullptr)) std::swap(a, b);
  if (a.integer(i) != nullptr && b.integer(j) != nullptr) return integers(e.op, i, j);
  double x = 0, y = 0;
  if (as_double(a, x) && as_double(b, y)) return doubles(e.op, x, y);
  static constexpr const char* names[] = {"-", "*", "/", "//", "%", "**"};
  const char* name = names[static_cast<int>(e.op) - static_cast<int>(Op::Subtract)];
  const bool times = e.op == Op::Multiply && a.integer(i) == nullptr && b.integer(j) != nullptr;
  const auto count = static_cast<std::size_t>(std::clamp<std::int64_t>(j, 0, std::int64_t{1} << 40));
  if (times && a.is_string()) {
    Output out = buffer();
    for (std::size_t k = 0; k < count && !a.text().empty(); ++k) out.add(a.text());
    return text(out.take());
  }
  if (times && a.list() != nullptr && a.list()->has_index()) {
    Values out;
    for (std::size_t k = 0; k < count && !a.list()->items.empty(); ++k) {
      spend(a.list()->items.size());
      out.insert(out.end(), a.list()->items.begin(), a.list()->items.end());
    }
    return make_list(std::move(out), a.list()->kind);
  }
  no_operator(name, a, b);
}

Value Machine::add(const Value& a, const Value& b) {
  std::int64_t i = 0, j = 0, sum = 0;
  if (a.integer(i) != nullptr && b.integer(j) != nullptr) {
    if (__builtin_add_overflow(i, j, &sum)) overflow();
    return sum;
  }
  double x = 0, y = 0;
  if (as_double(a, x) && as_double(b, y)) return x + y;
  if (const Text *s = a.as<Text>(), *t = b.as<Text>(); s != nullptr && t != nullptr) {
    // What is added to a text that is marked safe is escaped, as markupsafe does.
    if (s->safe == t->safe) return text(*s->text + *t->text, s->safe);
    return text(s->safe ? *s->text + escape_html(*t->text) : escape_html(*s->text) + *t->text, true);
  }
  if (const List *s = a.list(), *t = b.list(); s != nullptr && t != nullptr && s->kind == t->kind && s->has_index()) {
    Values out = s->items;
    out.insert(out.end(), t->items.begin(), t->items.end());
    spend(out.size());
    return make_list(std::move(out), s->kind);
  }
  no_operator("+", a, b);
}

bool Machine::contains(const Value& container, const Value& value) {
  if (container.is_string()) {
    if (value.is_undefined()) undefined_error(value);
    if (!value.is_string())
      throw TemplateFailure(concat("expected a string to look for in a string, found ", type_name(value)));
    spend(container.text().size() / 16);
    return container.text().find(value.text()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) {
    spend(value.work());
    return dict->find(value) != nullptr;
  }
  if (const List* list = container.list()) {
    if (list->kind == Sequence::Keys) Dict().find(value);  // throws where the value can be no key
    spend(std::min(list->work, list->items.size() * value.work()));
    return std::any_of(list->items.begin(), list->items.end(), [&](const Value& v) { return equal(v, value); });
  }
  if (container.is_undefined()) return false;
  throw TemplateFailure(concat("expected a list, dict or string to look in, found ", type_name(container)));
}

Value Machine::compare_all(const Expression& e) {
  Value left = evaluate(*e.operands[0]);
  for (std::size_t i = 0; i < e.comparisons.size(); ++i) {
    Value right = evaluate(*e.operands[i + 1]);
    line_ = e.line;
    spend(std::min(left.work(), right.work()));
    bool holds = false;
    switch (e.comparisons[i]) {
      case Comparison::Equal: holds = equal(left, right); break;
      case Comparison::NotEqual: holds = !equal(left, right); break;
      case Comparison::Less: holds = compare(left, right) < 0; break;
      case Comparison::LessEqual: holds = compare(left, right) <= 0; break;
      case Comparison::Greater: holds = compare(left, right) > 0; break;
      case Comparison::GreaterEqual: holds = compare(left, right) >= 0; break;
      case Comparison::In: holds = contains(right, left); break;
      case Comparison::NotIn: holds = !contains(right, left); break;
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Machine::slice(const Expression& e) {
  const Value of = evaluate(*e.operands[0]);
  if (of.is_undefined()) undefined_error(of);
  const bool is_text = of.is_string();
  if (!is_text && (of.list() == nullptr || !of.list()->has_index()))
    throw TemplateFailure(concat("expected a list or string to take a slice of, found ", type_name(of)));
  spend(is_text ? of.text().size() / 16 : of.list()->items.size());
  const auto n = static_cast<std::int64_t>(is_text ? length(of.text()) : of.list()->items.size());
  const auto bound = [&](std::size_t operand, std::int64_t otherwise, std::int64_t low, std::int64_t high) {
    if (e.operands[operand] == nullptr) return otherwise;
    const Value v = evaluate(*e.operands[operand]);
    std::int64_t i = 0;
    if (v.is_none()) return otherwise;
    if (v.integer(i) == nullptr)
      throw TemplateFailure(concat("expected whole numbers in a slice, found ", type_name(v)));
    return std::clamp(i < 0 ? i + n : i, low, high);
  };
  std::int64_t step = 1;
  if (e.operands[3] != nullptr) {
    const Value v = evaluate(*e.operands[3]);
    if (!v.is_none() && v.integer(step) == nullptr)
      throw TemplateFailure(concat("expected a whole number as step, found ", type_name(v)));
    if (step == 0) throw TemplateFailure("expected a step other than 0");
    step = std::clamp<std::int64_t>(step, -n - 1, n + 1);
  }
  const std::int64_t first = step > 0 ? bound(1, 0, 0, n) : bound(1, n - 1, -1, n - 1);
  const std::int64_t last = step > 0 ? bound(2, n, 0, n) : bound(2, -1, -1, n - 1);
  line_ = e.line;
  if (is_text) return text(slice_text(of.text(), first, last, step));
  Values out;
  for (std::int64_t i = first; step > 0 ? i < last : i > last; i += step)
    out.push_back(of.list()->items[static_cast<std::size_t>(i)]);
  return make_list(std::move(out), of.list()->kind);
}

}  // namespace mortar::text::jinja
