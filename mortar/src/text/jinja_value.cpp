// Truth, equality and order of values as in Python, and what limits the nesting and size of lists and dicts.
#include "text/jinja_value.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tessera/base/format.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace mortar::text::jinja {
namespace {

constexpr int kDeepestValue = 120;
constexpr std::size_t kMaxKey = std::size_t{1} << 20;     // of a tuple, with the text in it
constexpr std::size_t kMaxValues = std::size_t{1} << 20;  // in one list or dict, with all that is within it

/// What two keys that are equal in Python have in common: 1, 1.0 and True are one key, and so are undefined values.
std::string key_of(const Value& key) {
  std::int64_t storage = 0;
  if (key.is_string()) return "s" + key.text();
  if (key.is_none()) return "n";
  if (key.is_undefined()) return "u";
  if (const std::int64_t* i = key.integer(storage)) return tessera::concat("i", *i);
  if (const double* d = key.as<double>()) {
    if (*d == std::floor(*d) && std::abs(*d) < 9e15) return tessera::concat("i", static_cast<std::int64_t>(*d));
    return tessera::concat("f", *d);
  }
  if (const Big* big = key.as<Big>()) return "i" + *big->digits;
  if (const List* tuple = key.list(); tuple != nullptr && tuple->kind == Sequence::Tuple) {
    std::string out = tessera::concat("t", tuple->items.size());
    for (const Value& each : tuple->items) {
      const std::string part = key_of(each);
      out += tessera::concat(":", part.size(), ":", part);
      if (out.size() > kMaxKey)
        throw TemplateFailure(tessera::concat("expected tuples of at most ", kMaxKey, " bytes as keys, found more"));
    }
    return out;
  }
  throw TemplateFailure(
      tessera::concat("expected a key of a dict that is a string, number or tuple of such, found ", type_name(key)));
}

/// Depth and references of a container whose value this is.
template <class Container>
void contain(Container& container, const Value& v) {
  container.depth = std::max(container.depth, v.depth() + 1);
  container.holds_reference |= v.holds_reference();
  container.size += v.size();
  container.work += v.work();
  if (container.size > kMaxValues)
    throw TemplateFailure(tessera::concat("expected lists and dicts of at most ", kMaxValues, " values, found more"));
  if (container.depth > kDeepestValue)
    throw TemplateFailure(
        tessera::concat("expected lists and dicts nested at most ", kDeepestValue, " deep, found more"));
}

/// Equality of views of dicts: of keys and of items without their order; values are equal to nothing but themselves.
bool equal_views(const List& a, const List& b) {
  if (a.kind == Sequence::Values || b.kind == Sequence::Values || a.items.size() != b.items.size()) return false;
  if (a.kind != b.kind) return a.items.empty();
  const auto as_dict = [](const List& view) {
    std::vector<std::pair<Value, Value>> items;
    for (const Value& v : view.items) {
      if (view.kind == Sequence::Keys)
        items.emplace_back(v, true);
      else
        items.emplace_back(v.list()->items[0], v.list()->items[1]);
    }
    return make_dict(std::move(items));
  };
  return equal(as_dict(a), as_dict(b));
}

/// Numbers of any type as double; null if it is none.
const double* number(const Value& v, double& storage) {
  std::int64_t i = 0;
  if (const std::int64_t* whole = v.integer(i))
    storage = static_cast<double>(*whole);
  else if (const double* d = v.as<double>())
    storage = *d;
  else
    return nullptr;
  return &storage;
}

}  // namespace

Value Value::undefined(std::string why) {
  Value v;
  v.v_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return v;
}

const List* Value::list() const {
  const auto* p = as<std::shared_ptr<const List>>();
  return p != nullptr ? p->get() : nullptr;
}
const Dict* Value::dict() const {
  const auto* p = as<std::shared_ptr<const Dict>>();
  return p != nullptr ? p->get() : nullptr;
}
const std::string& Value::text() const {
  static const std::string empty;
  const Text* t = as<Text>();
  return t != nullptr ? *t->text : empty;
}
const std::int64_t* Value::integer(std::int64_t& storage) const {
  if (const auto* i = as<std::int64_t>())
    storage = *i;
  else if (const bool* b = as<bool>())
    storage = *b ? 1 : 0;
  else
    return nullptr;
  return &storage;
}
bool Value::holds_reference() const {
  if (const List* l = list()) return l->holds_reference;
  if (const Dict* d = dict()) return d->holds_reference;
  return v_.index() >= 9;  // Namespace, Loop, Callable
}
int Value::depth() const {
  if (const List* l = list()) return l->depth;
  if (const Dict* d = dict()) return d->depth;
  if (const auto* loop = as<std::shared_ptr<const Loop>>()) return (*loop)->items->depth + 1;
  if (const auto* f = as<std::shared_ptr<const Callable>>()) return (*f)->self.depth() + 1;
  return 0;
}

std::size_t Value::size() const {
  if (const List* l = list()) return l->size;
  const Dict* d = dict();
  return d != nullptr ? d->size : 1;
}

std::size_t Value::work() const {
  if (const List* l = list()) return l->work;
  if (const Dict* d = dict()) return d->work;
  return 1 + text().size() / 16;
}

void Dict::set(Value key, Value value) {
  contain(*this, value);
  if (key.list() != nullptr) contain(*this, key);
  const auto [place, is_new] = places.try_emplace(key_of(key), items.size());
  if (is_new)
    items.emplace_back(std::move(key), std::move(value));
  else
    items[place->second].second = std::move(value);
}
const Value* Dict::find(const Value& key) const {
  const auto found = places.find(key_of(key));
  return found == places.end() ? nullptr : &items[found->second].second;
}
const Value* Dict::find(std::string_view key) const {
  const auto found = places.find("s" + std::string(key));
  return found == places.end() ? nullptr : &items[found->second].second;
}

Value make_list(Values items, Sequence kind) {
  auto list = std::make_shared<List>();
  list->kind = kind;
  for (const Value& v : items) contain(*list, v);
  list->items = std::move(items);
  return Value(std::shared_ptr<const List>(std::move(list)));
}

Value make_dict(std::vector<std::pair<Value, Value>> items) {
  auto dict = std::make_shared<Dict>();
  for (auto& [key, value] : items) dict->set(std::move(key), std::move(value));
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

Value read_json(JsonReader& reader) {
  using Kind = JsonReader::Kind;
  switch (reader.peek()) {
    case Kind::Object: {
      auto dict = std::make_shared<Dict>();
      reader.object([&](std::string_view name) {
        std::string key(name);
        dict->set(std::move(key), read_json(reader));
      });
      return Value(std::shared_ptr<const Dict>(std::move(dict)));
    }
    case Kind::Array: {
      Values items;
      reader.array([&] { items.push_back(read_json(reader)); });
      return make_list(std::move(items));
    }
    case Kind::String: return std::string(reader.string());
    case Kind::True:
    case Kind::False: return reader.boolean();
    case Kind::Null: reader.null(); return None{};
    case Kind::Number: break;
  }
  const std::string_view text = reader.number();
  if (text.find_first_of(".eE") == text.npos) {
    std::int64_t i = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), i).ec == std::errc{}) return i;
    return Big{std::make_shared<const std::string>(text)};
  }
  double d = 0;
  if (const auto r = std::from_chars(text.data(), text.data() + text.size(), d); r.ec == std::errc::result_out_of_range)
    d = std::strtod(std::string(text).c_str(), nullptr);
  return d;
}

bool truth(const Value& v) {
  std::int64_t i = 0;
  if (const std::int64_t* whole = v.integer(i)) return *whole != 0;
  if (const double* d = v.as<double>()) return *d != 0;
  if (v.is_string()) return !v.text().empty();
  if (const List* l = v.list()) return !l->items.empty();
  if (const Dict* d = v.dict()) return !d->items.empty();
  if (const auto* loop = v.as<std::shared_ptr<const Loop>>()) return !(*loop)->items->items.empty();
  return !v.is_undefined() && !v.is_none();
}

bool equal(const Value& a, const Value& b) {
  double x = 0, y = 0;
  std::int64_t i = 0, j = 0;
  if (a.integer(i) != nullptr && b.integer(j) != nullptr) return i == j;
  if (number(a, x) != nullptr && number(b, y) != nullptr) return x == y;
  if (a.is_string() && b.is_string()) return a.text() == b.text();
  if (const auto *p = a.as<Big>(), *q = b.as<Big>(); p != nullptr && q != nullptr) return *p->digits == *q->digits;
  if (const List *p = a.list(), *q = b.list(); p != nullptr && q != nullptr)
    return p == q || (!p->has_index() && !q->has_index() && equal_views(*p, *q)) ||
           (p->has_index() && p->kind == q->kind &&
            std::equal(p->items.begin(), p->items.end(), q->items.begin(), q->items.end(), equal));
  if (const Dict *p = a.dict(), *q = b.dict(); p != nullptr && q != nullptr) {
    if (p == q) return true;
    if (p->items.size() != q->items.size()) return false;
    return std::all_of(p->items.begin(), p->items.end(), [&](const auto& item) {
      const Value* other = q->find(item.first);
      return other != nullptr && equal(item.second, *other);
    });
  }
  if (const auto *p = a.as<std::shared_ptr<Namespace>>(), *q = b.as<std::shared_ptr<Namespace>>();
      p != nullptr && q != nullptr)
    return *p == *q;
  if (const auto *p = a.as<std::shared_ptr<const Callable>>(), *q = b.as<std::shared_ptr<const Callable>>();
      p != nullptr && q != nullptr)
    return *p == *q;
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int compare(const Value& a, const Value& b) {
  if (a.is_undefined()) undefined_error(a);
  if (b.is_undefined()) undefined_error(b);
  double x = 0, y = 0;
  std::int64_t i = 0, j = 0;
  if (a.integer(i) != nullptr && b.integer(j) != nullptr) return i < j ? -1 : i > j;
  if (number(a, x) != nullptr && number(b, y) != nullptr) return x < y ? -1 : x > y;
  if (a.is_string() && b.is_string()) {
    const int order = a.text().compare(b.text());  // code points have the order of their bytes
    return order < 0 ? -1 : order > 0;
  }
  if (const List *p = a.list(), *q = b.list(); p != nullptr && q != nullptr && p->kind == q->kind) {
    if (!p->has_index()) throw TemplateFailure("the order of views of dicts is not supported");
    for (std::size_t k = 0; k < std::min(p->items.size(), q->items.size()); ++k) {
      if (!equal(p->items[k], q->items[k])) return compare(p->items[k], q->items[k]);
    }
    return p->items.size() < q->items.size() ? -1 : p->items.size() > q->items.size();
  }
  throw TemplateFailure(
      tessera::concat("expected values that can be ordered, found ", type_name(a), " and ", type_name(b)));
}

const char* type_name(const Value& v) {
  if (v.is_undefined()) return "undefined";
  if (v.is_none()) return "None";
  if (v.as<bool>() != nullptr) return "bool";
  if (v.as<Big>() != nullptr) return "int of more than 64 bits";
  if (v.as<std::int64_t>() != nullptr) return "int";
  if (v.as<double>() != nullptr) return "float";
  if (v.is_string()) return "str";
  if (v.list() != nullptr) {
    static constexpr const char* names[] = {"list", "tuple", "dict_keys", "dict_values", "dict_items"};
    return names[static_cast<int>(v.list()->kind)];
  }
  if (v.dict() != nullptr) return "dict";
  if (v.as<std::shared_ptr<Namespace>>() != nullptr) return "namespace";
  return v.as<std::shared_ptr<const Loop>>() != nullptr ? "loop" : "function";
}

void undefined_error(const Value& v) {
  const Undefined* u = v.as<Undefined>();
  throw TemplateFailure(u != nullptr && u->why != nullptr ? *u->why : "expected a value, found an undefined one");
}

}  // namespace mortar::text::jinja
