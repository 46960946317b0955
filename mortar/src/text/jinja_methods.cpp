// Methods of strings, lists and dicts, as Python has them. Lists and dicts of templates never change.
#include <algorithm>
#include <cctype>
#include <span>

#include "tessera/base/format.hpp"
#include "text/jinja_machine.hpp"
#include "text/utf8.hpp"

namespace mortar::text::jinja {

using tessera::concat;

namespace {

using Method = Value (*)(Machine&, const Value& self, const Arguments&);
struct MethodRow {
  std::string_view name;
  Method method;
};

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t most) {
  std::vector<std::string_view> out;
  for (; most != 0; --most) {
    const std::size_t at = text.find(separator);
    if (at == text.npos) break;
    out.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  out.push_back(text);
  return out;
}

std::vector<std::string_view> split_at_last(std::string_view text, std::string_view separator, std::int64_t most) {
  std::vector<std::string_view> out;
  for (; most != 0; --most) {
    const std::size_t at = text.rfind(separator);
    if (at == text.npos) break;
    out.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  out.push_back(text);
  std::reverse(out.begin(), out.end());
  return out;
}

/// At runs of white space, none of it in the parts.
std::vector<std::string_view> split_at_space(std::string_view text, std::int64_t most, bool from_end) {
  std::vector<std::string_view> out;
  text = strip(text, nullptr, !from_end, from_end);
  for (; most != 0 && !text.empty(); --most) {
    std::size_t at = from_end ? text.size() : 0;
    const auto character = [&]() -> std::string_view {
      if (!from_end) return text.substr(at, decode_valid(text.data() + at).bytes);
      std::size_t begin = at - 1;
      while ((text[begin] & 0xC0) == 0x80) --begin;
      return text.substr(begin, at - begin);
    };
    while (from_end ? at > 0 : at < text.size()) {
      const std::string_view c = character();
      if (is_space(decode_valid(c.data()).code_point)) break;
      at = from_end ? at - c.size() : at + c.size();
    }
    out.push_back(from_end ? text.substr(at) : text.substr(0, at));
    text = strip(from_end ? text.substr(0, at) : text.substr(at), nullptr, !from_end, from_end);
  }
  // The rest keeps the white space at its far end.
  if (!text.empty()) out.push_back(text);
  if (from_end) std::reverse(out.begin(), out.end());
  return out;
}

Value strings(Machine& m, const std::vector<std::string_view>& parts) {
  Values out;
  m.spend(parts.size());
  for (std::string_view part : parts) out.push_back(m.text(std::string(part)));
  return make_list(std::move(out));
}

Value split(Machine& m, const Value& self, const Arguments& a, bool from_end) {
  const Bound b(from_end ? "rsplit" : "split", a, {"sep", "maxsplit"});
  const std::int64_t most = b.integer(1, -1);
  if (b.get(0) == nullptr || b.get(0)->is_none()) return strings(m, split_at_space(self.text(), most, from_end));
  const std::string& separator = b.string(0);
  if (separator.empty()) throw TemplateFailure("split: expected a separator that is not empty");
  return strings(m, from_end ? split_at_last(self.text(), separator, most) : split_at(self.text(), separator, most));
}

Value strip_method(Machine& m, const Value& self, const Arguments& a, const char* name, bool left, bool right) {
  const Bound b(name, a, {"chars"});
  const bool all = b.get(0) == nullptr || b.get(0)->is_none();
  return m.text(std::string(strip(self.text(), all ? nullptr : &b.string(0), left, right)));
}

Value splitlines(Machine& m, const Value& self, const Arguments& a) {
  const Bound b("splitlines", a, {"keepends"});
  return strings(m, lines_of(self.text(), b.flag(0, false)));
}

/// startswith and endswith take one text or a tuple of them.
template <class Matches>
Value any_of(const Arguments& a, const char* name, Matches&& matches) {
  const Bound b(name, a, {"prefix"});
  if (const List* list = b.need(0).list(); list != nullptr && list->kind == Sequence::Tuple)
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& v) { return v.is_string() && matches(v.text()); });
  return matches(b.string(0));
}

Value find(const Value& self, const Arguments& a, bool last) {
  const Bound b(last ? "rfind" : "find", a, {"sub"});
  const std::string& text = self.text();
  const std::size_t at = last ? text.rfind(b.string(0)) : text.find(b.string(0));
  return at == text.npos ? std::int64_t{-1} : static_cast<std::int64_t>(length(std::string_view(text).substr(0, at)));
}
/// As find(), but the text has to be there.
Value index_in_text(const Value& self, const Arguments& a, bool last) {
  const Bound b(last ? "rindex" : "index", a, {"sub"});
  const Value found = find(self, a, last);
  if (*found.as<std::int64_t>() < 0)
    throw TemplateFailure(
        concat(last ? "rindex" : "index", ": expected a part of the string, found '", b.string(0), "'"));
  return found;
}

Value join_texts(Machine& m, const Value& self, const Arguments& a) {
  const Bound b("join", a, {"iterable"});
  Output out = m.buffer();
  bool first = true;
  for (const Value& v : m.elements(b.need(0))) {
    if (!v.is_string()) throw TemplateFailure(concat("join: expected strings, found ", type_name(v)));
    if (!first) out.add(self.text());
    out.add(v.text());
    first = false;
  }
  return m.text(out.take());
}

Value count(Machine&, const Value& self, const Arguments& a) {
  const Bound b("count", a, {"sub"});
  const std::string& sub = b.string(0);
  if (sub.empty()) return static_cast<std::int64_t>(length(self.text())) + 1;
  return static_cast<std::int64_t>(split_at(self.text(), sub, -1).size()) - 1;
}

Value without(Machine& m, const Value& self, const Arguments& a, bool prefix) {
  const Bound b(prefix ? "removeprefix" : "removesuffix", a, {"part"});
  const std::string &text = self.text(), &part = b.string(0);
  const bool matches = prefix ? text.starts_with(part) : text.ends_with(part);
  return matches ? m.text(text.substr(prefix ? part.size() : 0, text.size() - part.size())) : self;
}

template <class Is>
Value all_characters(const Value& self, Is&& is) {
  const std::string& text = self.text();
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80)
      throw TemplateFailure("expected ASCII text to ask for its kind of characters: others are not supported");
  }
  return !text.empty() && std::all_of(text.begin(), text.end(), is);
}

/// A filter that does the same.
template <const char* const& Name>
Value as_filter(Machine& m, const Value& self, const Arguments& a) {
  return m.filter(Name, self, a);
}
constexpr const char *kLower = "lower", *kUpper = "upper", *kCapitalize = "capitalize", *kReplace = "replace";

constexpr MethodRow kString[] = {
    {"split", [](Machine& m, const Value& s, const Arguments& a) { return split(m, s, a, false); }},
    {"rsplit", [](Machine& m, const Value& s, const Arguments& a) { return split(m, s, a, true); }},
    {"strip",
     [](Machine& m, const Value& s, const Arguments& a) { return strip_method(m, s, a, "strip", true, true); }},
    {"lstrip",
     [](Machine& m, const Value& s, const Arguments& a) { return strip_method(m, s, a, "lstrip", true, false); }},
    {"rstrip",
     [](Machine& m, const Value& s, const Arguments& a) { return strip_method(m, s, a, "rstrip", false, true); }},
    {"splitlines", splitlines},
    {"startswith",
     [](Machine&, const Value& s, const Arguments& a) {
       return any_of(a, "startswith", [&](const std::string& p) { return s.text().starts_with(p); });
     }},
    {"endswith",
     [](Machine&, const Value& s, const Arguments& a) {
       return any_of(a, "endswith", [&](const std::string& p) { return s.text().ends_with(p); });
     }},
    {"find", [](Machine&, const Value& s, const Arguments& a) { return find(s, a, false); }},
    {"rfind", [](Machine&, const Value& s, const Arguments& a) { return find(s, a, true); }},
    {"index", [](Machine&, const Value& s, const Arguments& a) { return index_in_text(s, a, false); }},
    {"rindex", [](Machine&, const Value& s, const Arguments& a) { return index_in_text(s, a, true); }},
    {"count", count},
    {"join", join_texts},
    {"removeprefix", [](Machine& m, const Value& s, const Arguments& a) { return without(m, s, a, true); }},
    {"removesuffix", [](Machine& m, const Value& s, const Arguments& a) { return without(m, s, a, false); }},
    {"lower", as_filter<kLower>},
    {"upper", as_filter<kUpper>},
    {"capitalize", as_filter<kCapitalize>},
    {"replace", as_filter<kReplace>},
    {"isdigit",
     [](Machine&, const Value& s, const Arguments&) {
       return all_characters(s, [](unsigned char c) { return std::isdigit(c) != 0; });
     }},
    {"isalpha",
     [](Machine&, const Value& s, const Arguments&) {
       return all_characters(s, [](unsigned char c) { return std::isalpha(c) != 0; });
     }},
    {"isalnum",
     [](Machine&, const Value& s, const Arguments&) {
       return all_characters(s, [](unsigned char c) { return std::isalnum(c) != 0; });
     }},
};

Value view(const Value& self, Sequence kind) {
  Values out;
  for (const auto& [key, value] : self.dict()->items)
    out.push_back(kind == Sequence::Items  ? make_list({key, value}, Sequence::Tuple)
                  : kind == Sequence::Keys ? key
                                           : value);
  return make_list(std::move(out), kind);
}

Value get(Machine&, const Value& self, const Arguments& a) {
  const Bound b("get", a, {"key", "default"});
  const Value* found = self.dict()->find(b.need(0));
  if (found != nullptr) return *found;
  return b.get(1) != nullptr ? *b.get(1) : Value(None{});
}

constexpr MethodRow kDict[] = {
    {"get", get},
    {"keys", [](Machine&, const Value& s, const Arguments&) { return view(s, Sequence::Keys); }},
    {"values", [](Machine&, const Value& s, const Arguments&) { return view(s, Sequence::Values); }},
    {"items", [](Machine&, const Value& s, const Arguments&) { return view(s, Sequence::Items); }},
    {"copy", [](Machine&, const Value& s, const Arguments&) { return s; }},
};

Value index(Machine& m, const Value& self, const Arguments& a) {
  const Bound b("index", a, {"value"});
  const Values& items = self.list()->items;
  m.spend(std::min(self.list()->work, items.size() * b.need(0).work()));
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& v) { return equal(v, b.need(0)); });
  if (found == items.end()) throw TemplateFailure("index: expected a value of the list, found another one");
  return static_cast<std::int64_t>(found - items.begin());
}

constexpr MethodRow kList[] = {
    {"index", index},
    {"count",
     [](Machine& m, const Value& s, const Arguments& a) -> Value {
       const Bound b("count", a, {"value"});
       const Values& items = s.list()->items;
       m.spend(std::min(s.list()->work, items.size() * b.need(0).work()));
       return static_cast<std::int64_t>(
           std::count_if(items.begin(), items.end(), [&](const Value& v) { return equal(v, b.need(0)); }));
     }},
};
// Methods that would change what they are called on; the sandbox of jinja2 rejects them too.
constexpr std::string_view kChanging[] = {"append", "extend", "insert", "remove",     "sort",   "reverse",
                                          "pop",    "clear",  "update", "setdefault", "popitem"};

std::span<const MethodRow> rows(const Value& self) {
  if (self.is_string()) return kString;
  if (self.dict() != nullptr) return kDict;
  if (self.list() != nullptr && self.list()->has_index()) return kList;
  return {};
}

bool is_changing(const Value& self, std::string_view name) {
  const bool is_list = self.list() != nullptr && self.list()->has_index();
  return (self.dict() != nullptr || is_list) &&
         std::find(std::begin(kChanging), std::end(kChanging), name) != std::end(kChanging) &&
         (is_list || (name != "append" && name != "extend" && name != "insert" && name != "remove" && name != "sort" &&
                      name != "reverse"));
}

}  // namespace

bool has_method(const Value& self, std::string_view name) {
  const auto all = rows(self);
  return is_changing(self, name) ||
         std::any_of(all.begin(), all.end(), [&](const MethodRow& r) { return r.name == name; });
}

Value call_method(Machine& machine, const Value& self, const std::string& name, const Arguments& arguments) {
  for (const MethodRow& row : rows(self)) {
    if (row.name != name) continue;
    // Most methods go over the whole text; those that look at one end of it, over what they look for.
    const bool at_end = name == "startswith" || name == "endswith";
    if (self.is_string() && !at_end) machine.spend(self.work());
    for (const Value& argument : arguments.positional) machine.spend(argument.work());
    return row.method(machine, self, arguments);
  }
  throw TemplateFailure(concat("expected a method that leaves the ", type_name(self), " as it is, found ", name));
}

Bound::Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> parameters)
    : function_(function), parameters_(parameters), values_(parameters.size()) {
  if (arguments.positional.size() > parameters.size())
    throw TemplateFailure(
        concat(function, ": expected at most ", parameters.size(), " arguments, found ", arguments.positional.size()));
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) throw TemplateFailure(concat(function, ": expected no argument '", name, "'"));
    values_[static_cast<std::size_t>(found - parameters.begin())] = &value;
  }
}

const Value& Bound::need(std::size_t parameter) const {
  if (values_[parameter] == nullptr)
    throw TemplateFailure(concat(function_, ": expected the argument ", parameters_[parameter]));
  return *values_[parameter];
}
const std::string& Bound::string(std::size_t parameter) const {
  const Value& v = need(parameter);
  if (v.is_undefined()) undefined_error(v);
  if (!v.is_string())
    throw TemplateFailure(
        concat(function_, ": expected a string as ", parameters_[parameter], ", found ", type_name(v)));
  return v.text();
}
std::int64_t Bound::integer(std::size_t parameter, std::int64_t otherwise) const {
  std::int64_t i = 0;
  if (values_[parameter] == nullptr) return otherwise;
  if (values_[parameter]->integer(i) == nullptr)
    throw TemplateFailure(concat(function_, ": expected a whole number as ", parameters_[parameter], ", found ",
                                 type_name(*values_[parameter])));
  return i;
}
bool Bound::flag(std::size_t parameter, bool otherwise) const {
  return values_[parameter] != nullptr ? truth(*values_[parameter]) : otherwise;
}

}  // namespace mortar::text::jinja
