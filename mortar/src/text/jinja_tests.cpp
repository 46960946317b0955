// Jinja's tests ("is defined"), and the functions of chat templates.
#include <algorithm>
#include <cmath>

#include "tessera/base/format.hpp"
#include "text/jinja_machine.hpp"
#include "text/utf8.hpp"

namespace mortar::text::jinja {

using tessera::concat;

namespace {

using Test = bool (*)(Machine&, const Value&, const Arguments&);
struct NamedTest {
  std::string_view name;
  int arguments;
  Test test;
};

bool is_exactly(const Value& v, bool expected) {
  const bool* b = v.as<bool>();
  return b != nullptr && *b == expected;
}
bool is_sequence(const Value& v) {
  return v.is_string() || (v.list() != nullptr && v.list()->has_index()) || v.dict() != nullptr || v.is_undefined();
}
bool is_iterable(const Value& v) { return is_sequence(v) || v.list() != nullptr; }
bool is_integer(const Value& v) { return v.as<std::int64_t>() != nullptr || v.as<Big>() != nullptr; }
/// Whether v % by is `rest` (0 or 1), as Python divides.
bool leaves(const Value& v, const Value& by, int rest) {
  std::int64_t a = 0, b = 0;
  if (v.integer(a) != nullptr && by.integer(b) != nullptr && b != 0) {
    const std::int64_t c = b == -1 ? 0 : a % b;
    return (c != 0 && (c < 0) != (b < 0) ? c + b : c) == rest;
  }
  const double* d = v.as<double>();
  for (const Value* operand : {&v, &by}) {
    if (operand->is_undefined()) undefined_error(*operand);
  }
  if (v.integer(a) == nullptr && d == nullptr)
    throw TemplateFailure(concat("expected a number to divide, found ", type_name(v)));
  if (by.integer(b) == nullptr)
    throw TemplateFailure(concat("expected a whole number to divide by, found ", type_name(by)));
  if (b == 0) throw TemplateFailure("expected a divisor other than 0");
  const double c = std::fmod(*d, static_cast<double>(b));
  return (c != 0 && (c < 0) != (b < 0) ? c + static_cast<double>(b) : c) == rest;
}
bool equal_test(Machine& m, const Value& v, const Arguments& a) {
  m.spend(std::min(v.work(), a.positional[0].work()));
  return equal(v, a.positional[0]);
}
bool cased(const std::string& text, bool upper) {
  bool letters = false;
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80)
      throw TemplateFailure("expected ASCII text to ask for its case: others are not supported");
    if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') return false;
    letters |= (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  return letters;
}

#define MORTAR_TEST(expression)                              \
  [](Machine&, const Value& v, const Arguments& a) -> bool { \
    (void)a;                                                 \
    return expression;                                       \
  }
constexpr NamedTest kTests[] = {
    {"defined", 0, MORTAR_TEST(!v.is_undefined())},
    {"undefined", 0, MORTAR_TEST(v.is_undefined())},
    {"none", 0, MORTAR_TEST(v.is_none())},
    {"string", 0, MORTAR_TEST(v.is_string())},
    {"number", 0, MORTAR_TEST(is_integer(v) || v.as<double>() != nullptr || v.as<bool>() != nullptr)},
    {"integer", 0, MORTAR_TEST(is_integer(v))},
    {"float", 0, MORTAR_TEST(v.as<double>() != nullptr)},
    {"boolean", 0, MORTAR_TEST(v.as<bool>() != nullptr)},
    {"true", 0, MORTAR_TEST(is_exactly(v, true))},
    {"false", 0, MORTAR_TEST(is_exactly(v, false))},
    {"mapping", 0, MORTAR_TEST(v.dict() != nullptr)},
    {"sequence", 0, MORTAR_TEST(is_sequence(v))},
    {"iterable", 0, MORTAR_TEST(is_iterable(v))},
    {"callable", 0, MORTAR_TEST(v.as<std::shared_ptr<const Callable>>() != nullptr || v.is_undefined())},
    {"lower", 0, [](Machine& m, const Value& v, const Arguments&) { return cased(m.str(v), false); }},
    {"upper", 0, [](Machine& m, const Value& v, const Arguments&) { return cased(m.str(v), true); }},
    {"odd", 0, MORTAR_TEST(leaves(v, std::int64_t{2}, 1))},
    {"even", 0, MORTAR_TEST(leaves(v, std::int64_t{2}, 0))},
    {"divisibleby", 1, MORTAR_TEST(leaves(v, a.positional[0], 0))},
    {"eq", 1, equal_test},
    {"equalto", 1, equal_test},
    {"==", 1, equal_test},
    {"ne", 1, [](Machine& m, const Value& v, const Arguments& a) { return !equal_test(m, v, a); }},
    {"lt", 1, MORTAR_TEST(compare(v, a.positional[0]) < 0)},
    {"le", 1, MORTAR_TEST(compare(v, a.positional[0]) <= 0)},
    {"gt", 1, MORTAR_TEST(compare(v, a.positional[0]) > 0)},
    {"ge", 1, MORTAR_TEST(compare(v, a.positional[0]) >= 0)},
    {"in", 1, [](Machine& m, const Value& v, const Arguments& a) { return m.contains(a.positional[0], v); }},
};
#undef MORTAR_TEST

const NamedTest* find_test(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const NamedTest& r) { return r.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

Value range(Machine& m, const Arguments& a) {
  constexpr std::int64_t most = 100000;  // that of Jinja's sandbox
  const Bound b("range", a, {"start", "stop", "step"});
  std::int64_t start = b.get(1) == nullptr ? 0 : b.integer(0, 0),
               stop = b.get(1) == nullptr ? b.integer(0, 0) : b.integer(1, 0);
  (void)b.need(0);
  const std::int64_t step = b.integer(2, 1);
  if (step == 0) throw TemplateFailure("range: expected a step other than 0");
  Values out;
  while (step > 0 ? start < stop : start > stop) {
    if (static_cast<std::int64_t>(out.size()) == most)
      throw TemplateFailure(concat("range: expected at most ", most, " numbers, found more"));
    out.emplace_back(start);
    if (__builtin_add_overflow(start, step, &start)) break;
  }
  m.spend(out.size());
  return make_list(std::move(out));
}

Value make_namespace(const Arguments& a) {
  auto out = std::make_shared<Namespace>();
  if (a.positional.size() > 1) throw TemplateFailure("namespace: expected at most one dict before the named values");
  if (!a.positional.empty() && a.positional[0].is_undefined()) undefined_error(a.positional[0]);
  if (!a.positional.empty() && a.positional[0].dict() == nullptr) throw TemplateFailure("namespace: expected a dict");
  const auto put = [&](const std::string& name, const Value& v) {
    if (v.holds_reference())
      throw TemplateFailure(
          "expected a value to keep in a namespace, found a namespace, loop or function: not supported");
    out->attributes[name] = v;
  };
  if (!a.positional.empty()) {
    for (const auto& [key, value] : a.positional[0].dict()->items) put(key.text(), value);
  }
  for (const auto& [name, value] : a.named) put(name, value);
  return Value(std::move(out));
}

}  // namespace

bool has_test(std::string_view name) { return find_test(name) != nullptr; }

bool Machine::test(const std::string& name, const Value& value, const Arguments& arguments) {
  const NamedTest* row = find_test(name);
  if (row == nullptr) throw TemplateFailure(concat("expected a test that this version knows, found '", name, "'"));
  if (static_cast<int>(arguments.positional.size()) != row->arguments || !arguments.named.empty())
    throw TemplateFailure(concat("is ", name, ": expected ", row->arguments, " arguments, found ",
                                 arguments.positional.size() + arguments.named.size()));
  spend(1);
  return row->test(*this, value, arguments);
}

bool has_function(std::string_view name) {
  return name == "range" || name == "namespace" || name == "dict" || name == "raise_exception" ||
         name == "strftime_now";
}

Value call_function(Machine& machine, const std::string& name, const Arguments& arguments) {
  if (name == "range") return range(machine, arguments);
  if (name == "namespace") return make_namespace(arguments);
  if (name == "dict") {
    if (!arguments.positional.empty() && arguments.positional[0].is_undefined())
      undefined_error(arguments.positional[0]);
    if (!arguments.positional.empty()) throw TemplateFailure("dict: expected named values only");
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [key, value] : arguments.named) items.emplace_back(key, value);
    return make_dict(std::move(items));
  }
  if (name == "strftime_now") return machine.now_as(Bound("strftime_now", arguments, {"format"}).string(0));
  throw TemplateRejection(machine.str(Bound("raise_exception", arguments, {"message"}).need(0)));
}

Value Machine::now_as(const std::string& format) {
  static constexpr std::string_view letters = "aAbBcdHIjmMpSUwWxXyYZ%";  // those of every C library, with no flags
  std::string out;
  std::tm now{};
  if (now_) {
    now = *now_;
  } else {
    const std::time_t seconds = std::time(nullptr);
    localtime_r(&seconds, &now);
  }
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const char letter = ++i < format.size() ? format[i] : '\0';
    if (letter == '\0' || letters.find(letter) == letters.npos)
      throw TemplateFailure(concat("strftime_now: expected one of ", letters, " after %, found '",
                                   std::string(letter != '\0' ? 1 : 0, letter), "'"));
    const char one[3] = {'%', letter, '\0'};
    char buffer[128];
    out.append(buffer, std::strftime(buffer, sizeof buffer, one, &now));
  }
  return text(std::move(out));
}

}  // namespace mortar::text::jinja
