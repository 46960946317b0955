// Jinja's filters, as far as chat templates use them, and tojson as Hugging Face defines it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <span>

#include "tessera/base/format.hpp"
#include "text/jinja_machine.hpp"
#include "text/utf8.hpp"

namespace mortar::text::jinja {

using tessera::concat;

namespace {

using Filter = Value (*)(Machine&, const Value&, const Arguments&);
struct Row {
  std::string_view name;
  Filter filter;
};

void no_arguments(const char* name, const Arguments& a) { (void)Bound(name, a, {}); }

/// A change of case. Letters beyond ASCII would need tables of their own.
template <class Change>
Value with_case(Machine& m, const Value& v, const char* name, const Arguments& a, Change&& change) {
  no_arguments(name, a);
  std::string out = m.str(v);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) >= 0x80)
      throw TemplateFailure(concat(name, ": expected ASCII text (no other is supported), found other characters"));
  }
  bool start = true;
  for (char& c : out) {
    const bool is_upper = c >= 'A' && c <= 'Z', is_lower = c >= 'a' && c <= 'z';
    const int to = change(start, c);
    if (to > 0 && is_lower) c = static_cast<char>(c - 'a' + 'A');
    if (to < 0 && is_upper) c = static_cast<char>(c - 'A' + 'a');
    start = false;
    if (std::string_view(name) == "title" &&
        (c == '-' || c == ' ' || c == '(' || c == '{' || c == '[' || c == '<' || (c >= 9 && c <= 13)))
      start = true;
  }
  return m.text(std::move(out));
}

Value tojson(Machine& m, const Value& v, const Arguments& a) {
  const Bound b("tojson", a, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = b.flag(0, false);
  if (const Value* indent = b.get(1); indent != nullptr && !indent->is_none()) {
    style.indent = static_cast<int>(std::clamp<std::int64_t>(b.integer(1, 0), 0, 64));
    style.item = ",";
  }
  if (const Value* separators = b.get(2); separators != nullptr && !separators->is_none()) {
    const List* pair = separators->list();
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].is_string() || !pair->items[1].is_string())
      throw TemplateFailure("tojson: expected two strings as separators");
    style.item = pair->items[0].text();
    style.key = pair->items[1].text();
  }
  style.sort_keys = b.flag(3, false);
  Output out = m.buffer();
  write_json(v, style, out);
  return m.text(out.take());
}

Value default_value(Machine&, const Value& v, const Arguments& a) {
  const Bound b("default", a, {"default_value", "boolean"});
  if (!v.is_undefined() && !(b.flag(1, false) && !truth(v))) return v;
  return b.get(0) != nullptr ? *b.get(0) : Value(std::string());
}

Value replace(Machine& m, const Value& v, const Arguments& a) {
  const Bound b("replace", a, {"old", "new", "count"});
  const std::string text = m.str(v), &from = b.string(0), &to = b.string(1);
  std::int64_t left = b.get(2) == nullptr || b.get(2)->is_none() ? -1 : b.integer(2, -1);
  Output out = m.buffer();
  std::size_t at = 0;
  while (left != 0) {
    // An empty text is found before every character, and at the end.
    const std::size_t found = from.empty() ? at : text.find(from, at);
    if (found == text.npos) break;
    out.add(std::string_view(text).substr(at, found - at));
    out.add(to);
    at = found + from.size();
    --left;
    if (!from.empty()) continue;
    if (at == text.size()) return m.text(out.take());
    const unsigned bytes = decode_valid(text.data() + at).bytes;
    out.add(std::string_view(text).substr(at, bytes));
    at += bytes;
  }
  out.add(std::string_view(text).substr(at));
  return m.text(out.take());
}

Value join(Machine& m, const Value& v, const Arguments& a) {
  const Bound b("join", a, {"d", "attribute"});
  const std::string separator = b.get(0) != nullptr ? m.str(*b.get(0)) : "";
  Output out = m.buffer();
  bool first = true;
  for (const Value& e : m.elements(v)) {
    if (!first) out.add(separator);
    first = false;
    write_str(b.get(1) != nullptr ? m.attribute(e, b.string(1)) : e, out);
  }
  return m.text(out.take());
}

Value indent(Machine& m, const Value& v, const Arguments& a) {
  const Bound b("indent", a, {"width", "first", "blank"});
  const std::string space =
      b.get(0) != nullptr && b.get(0)->is_string()
          ? b.string(0)
          : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(b.integer(0, 4), 0, 256)), ' ');
  const bool blank = b.flag(2, false);
  if (v.is_undefined()) undefined_error(v);
  if (!v.is_string()) throw TemplateFailure(concat("indent: expected a string, found ", type_name(v)));
  const std::string text = v.text() + "\n";  // an empty text has a line, and the last line end of another ends one more
  Output out = m.buffer();
  bool is_first = true;
  for (const std::string_view line : lines_of(text, false)) {
    if (!is_first) out.add("\n");
    if (is_first ? b.flag(1, false) : blank || !line.empty()) out.add(space);
    out.add(line);
    is_first = false;
  }
  return m.text(out.take());
}

Value to_int(Machine&, const Value& v, const Arguments& a) {
  const Bound b("int", a, {"default", "base"});
  if (v.is_undefined()) undefined_error(v);
  std::int64_t i = 0;
  if (v.integer(i) != nullptr) return i;
  double d = 0;
  const double* number = v.as<double>();
  if (number != nullptr) d = *number;
  if (v.is_string()) {
    const std::string text(strip(v.text(), nullptr, true, true));
    const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
    const auto base = static_cast<int>(std::clamp<std::int64_t>(b.integer(1, 10), 2, 36));
    if (const auto r = std::from_chars(begin, end, i, base); r.ec == std::errc{} && r.ptr == end && begin != end)
      return i;
    const auto r = std::from_chars(begin, end, d);
    if (r.ec == std::errc{} && r.ptr == end && begin != end) number = &d;
  }
  if (number != nullptr && std::abs(d) < 9e18) return static_cast<std::int64_t>(d);
  return b.get(0) != nullptr ? *b.get(0) : Value(std::int64_t{0});
}

Value to_float(Machine&, const Value& v, const Arguments& a) {
  const Bound b("float", a, {"default"});
  if (v.is_undefined()) undefined_error(v);
  std::int64_t i = 0;
  if (v.integer(i) != nullptr) return static_cast<double>(i);
  if (v.as<double>() != nullptr) return v;
  const std::string text(strip(v.text(), nullptr, true, true));
  double d = 0;
  const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
  if (const auto r = std::from_chars(begin, end, d); r.ec == std::errc{} && r.ptr == end && begin != end) return d;
  return b.get(0) != nullptr ? *b.get(0) : Value(0.0);
}

Value length_of(Machine&, const Value& v, const Arguments& a) {
  no_arguments("length", a);
  if (v.is_string()) return static_cast<std::int64_t>(length(v.text()));
  if (const List* l = v.list()) return static_cast<std::int64_t>(l->items.size());
  if (const Dict* d = v.dict()) return static_cast<std::int64_t>(d->items.size());
  if (v.is_undefined()) return std::int64_t{0};
  throw TemplateFailure(concat("length: expected a list, dict or string, found ", type_name(v)));
}

Value items(Machine& m, const Value& v, const Arguments& a) {
  no_arguments("items", a);
  if (v.is_undefined()) return make_list({});
  if (v.dict() == nullptr) throw TemplateFailure(concat("items: expected a dict, found ", type_name(v)));
  return call_method(m, v, "items", {});
}

Value first_or_last(Machine& m, const Value& v, const Arguments& a, bool first) {
  no_arguments(first ? "first" : "last", a);
  const Values all = m.elements(v);
  if (all.empty())
    return Value::undefined(concat("there is no ", first ? "first" : "last", " item: the sequence is empty"));
  return first ? all.front() : all.back();
}

Value reverse(Machine& m, const Value& v, const Arguments& a) {
  no_arguments("reverse", a);
  Values all = m.elements(v);
  std::reverse(all.begin(), all.end());
  if (!v.is_string()) return make_list(std::move(all));
  std::string out;
  for (const Value& c : all) out += c.text();
  return m.text(std::move(out));
}

/// What values are ordered by: text without its case unless asked otherwise.
Value sort_key(Machine& m, const Value& v, bool case_sensitive, const Value* attribute) {
  const Value key = attribute != nullptr ? m.attribute(v, attribute->text()) : v;
  return !case_sensitive && key.is_string() ? m.filter("lower", key, {}) : key;
}

int compared(Machine& m, const Value& a, const Value& b) {
  m.spend(std::min(a.work(), b.work()));
  return compare(a, b);
}
void sort_by_key(Machine& m, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& x, const auto& y) {
    return reverse ? compared(m, y.first, x.first) < 0 : compared(m, x.first, y.first) < 0;
  });
}

Values sorted(Machine& m, Values all, bool reverse, bool case_sensitive, const Value* attribute) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& v : all) {
    Value key = sort_key(m, v, case_sensitive, attribute);
    keyed.emplace_back(std::move(key), std::move(v));
  }
  sort_by_key(m, keyed, reverse);
  Values out;
  for (auto& [key, v] : keyed) out.push_back(std::move(v));
  return out;
}

Value sort(Machine& m, const Value& v, const Arguments& a) {
  const Bound b("sort", a, {"reverse", "case_sensitive", "attribute"});
  return make_list(sorted(m, m.elements(v), b.flag(0, false), b.flag(1, false), b.get(2)));
}

Value dictsort(Machine& m, const Value& v, const Arguments& a) {
  const Bound b("dictsort", a, {"case_sensitive", "by", "reverse"});
  const bool by_value = b.get(1) != nullptr && b.string(1) == "value";
  std::vector<std::pair<Value, Value>> keyed;
  if (v.is_undefined()) undefined_error(v);
  if (v.dict() == nullptr) throw TemplateFailure(concat("dictsort: expected a dict, found ", type_name(v)));
  for (const auto& [key, value] : v.dict()->items)
    keyed.emplace_back(sort_key(m, by_value ? value : key, b.flag(0, false), nullptr),
                       make_list({key, value}, Sequence::Tuple));
  sort_by_key(m, keyed, b.flag(2, false));
  Values out;
  for (auto& [key, pair] : keyed) out.push_back(std::move(pair));
  return make_list(std::move(out));
}

Value unique(Machine& m, const Value& v, const Arguments& a) {
  const Bound b("unique", a, {"case_sensitive", "attribute"});
  Dict seen;
  Values out;
  for (Value& e : m.elements(v)) {
    Value key = sort_key(m, e, b.flag(0, false), b.get(1));
    m.spend(key.work());
    if (seen.find(key) != nullptr) continue;
    seen.set(std::move(key), true);
    out.push_back(std::move(e));
  }
  return make_list(std::move(out));
}

/// select, reject, selectattr, rejectattr: by a test, or by truth where none is named.
Value select(Machine& m, const Value& v, const Arguments& a, bool by_attribute, bool keep) {
  const std::size_t first = by_attribute ? 1 : 0;
  if (by_attribute && (a.positional.empty() || !a.positional[0].is_string()))
    throw TemplateFailure("selectattr: expected the name of an attribute");
  Arguments rest;
  if (a.positional.size() > first + 1)
    rest.positional.assign(a.positional.begin() + static_cast<std::ptrdiff_t>(first) + 1, a.positional.end());
  Values out;
  for (Value& e : m.elements(v)) {
    const Value of = by_attribute ? m.item(e, a.positional[0]) : e;
    const bool holds = a.positional.size() > first ? m.test(a.positional[first].text(), of, rest) : truth(of);
    if (holds == keep) out.push_back(std::move(e));
  }
  return make_list(std::move(out));
}

Value map(Machine& m, const Value& v, const Arguments& a) {
  Values out;
  if (a.positional.empty()) {
    const Bound b("map", a, {"attribute", "default"});
    for (const Value& e : m.elements(v)) {
      Value found = m.item(e, b.need(0));
      out.push_back(found.is_undefined() && b.get(1) != nullptr ? *b.get(1) : std::move(found));
    }
    return make_list(std::move(out));
  }
  Arguments rest{{a.positional.begin() + 1, a.positional.end()}, a.named};
  for (const Value& e : m.elements(v)) out.push_back(m.filter(a.positional[0].text(), e, rest));
  return make_list(std::move(out));
}

Value absolute(Machine&, const Value& v, const Arguments& a) {
  no_arguments("abs", a);
  std::int64_t i = 0;
  if (v.integer(i) != nullptr && i != INT64_MIN) return i < 0 ? -i : i;
  if (const double* d = v.as<double>()) return std::abs(*d);
  throw TemplateFailure(concat("abs: expected a number, found ", type_name(v)));
}

Value extreme(Machine& m, const Value& v, const Arguments& a, bool largest) {
  const Bound b(largest ? "max" : "min", a, {"case_sensitive", "attribute"});
  const Values all = m.elements(v);
  if (all.empty()) return Value::undefined("the sequence is empty");
  const Value* best = &all[0];
  for (const Value& e : std::span(all).subspan(1)) {
    const int order =
        compared(m, sort_key(m, e, b.flag(0, false), b.get(1)), sort_key(m, *best, b.flag(0, false), b.get(1)));
    if (largest ? order > 0 : order < 0) best = &e;
  }
  return *best;
}

Value escape(Machine& m, const Value& v, const Arguments& a) {
  no_arguments("escape", a);
  if (const Text* t = v.as<Text>(); t != nullptr && t->safe) return v;
  return m.text(escape_html(m.str(v)), true);
}

constexpr Row kFilters[] = {
    {"abs", absolute},
    {"capitalize",
     [](Machine& m, const Value& v, const Arguments& a) {
       return with_case(m, v, "capitalize", a, [](bool start, char) { return start ? 1 : -1; });
     }},
    {"count", length_of},
    {"d", default_value},
    {"default", default_value},
    {"dictsort", dictsort},
    {"e", escape},
    {"escape", escape},
    {"first", [](Machine& m, const Value& v, const Arguments& a) { return first_or_last(m, v, a, true); }},
    {"float", to_float},
    {"indent", indent},
    {"int", to_int},
    {"items", items},
    {"join", join},
    {"last", [](Machine& m, const Value& v, const Arguments& a) { return first_or_last(m, v, a, false); }},
    {"length", length_of},
    {"list",
     [](Machine& m, const Value& v, const Arguments& a) { return no_arguments("list", a), make_list(m.elements(v)); }},
    {"lower", [](Machine& m, const Value& v,
                 const Arguments& a) { return with_case(m, v, "lower", a, [](bool, char) { return -1; }); }},
    {"map", map},
    {"max", [](Machine& m, const Value& v, const Arguments& a) { return extreme(m, v, a, true); }},
    {"min", [](Machine& m, const Value& v, const Arguments& a) { return extreme(m, v, a, false); }},
    {"reject", [](Machine& m, const Value& v, const Arguments& a) { return select(m, v, a, false, false); }},
    {"rejectattr", [](Machine& m, const Value& v, const Arguments& a) { return select(m, v, a, true, false); }},
    {"replace", replace},
    {"reverse", reverse},
    {"safe",
     [](Machine& m, const Value& v, const Arguments& a) { return no_arguments("safe", a), m.text(m.str(v), true); }},
    {"select", [](Machine& m, const Value& v, const Arguments& a) { return select(m, v, a, false, true); }},
    {"selectattr", [](Machine& m, const Value& v, const Arguments& a) { return select(m, v, a, true, true); }},
    {"sort", sort},
    {"string", [](Machine& m, const Value& v,
                  const Arguments& a) { return no_arguments("string", a), v.is_string() ? v : m.text(m.str(v)); }},
    {"title",
     [](Machine& m, const Value& v, const Arguments& a) {
       return with_case(m, v, "title", a, [](bool start, char) { return start ? 1 : -1; });
     }},
    {"tojson", tojson},
    {"trim",
     [](Machine& m, const Value& v, const Arguments& a) {
       const Bound b("trim", a, {"chars"});
       const bool all = b.get(0) == nullptr || b.get(0)->is_none();
       return m.text(std::string(strip(m.str(v), all ? nullptr : &b.string(0), true, true)));
     }},
    {"unique", unique},
    {"upper", [](Machine& m, const Value& v,
                 const Arguments& a) { return with_case(m, v, "upper", a, [](bool, char) { return 1; }); }},
};

const Row* find_filter(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kFilters), std::end(kFilters), [&](const Row& r) { return r.name == name; });
  return found == std::end(kFilters) ? nullptr : found;
}

}  // namespace

bool has_filter(std::string_view name) { return find_filter(name) != nullptr; }

Value Machine::filter(const std::string& name, const Value& value, const Arguments& arguments) {
  const Row* row = find_filter(name);
  if (row == nullptr) throw TemplateFailure(concat("expected a filter that this version knows, found '", name, "'"));
  spend(1);
  return row->filter(*this, value, arguments);
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&#34;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += c;
  }
  return out;
}

}  // namespace mortar::text::jinja
