// Programs as text: one S-expression per statement, everything else in lines of words. What to_text() writes,
// from_text() reads.
#include <charconv>
#include <stdexcept>
#include <unordered_map>

#include "generate/program.hpp"

namespace tessera::generate {
namespace {

constexpr const char* kParamWords[] = {"mut", "mut_tiles", "in", "scalar", "acc", "constant"};

ElementType element_named(std::string_view name) {
  static constexpr ElementType all[] = {
#define TESSERA_ELEMENT(name, ...) ElementType::name,
#include "tessera/base/element_types.def"
  };
  for (const ElementType e : all) {
    if (tessera::info(e).name == name) return e;
  }
  throw std::runtime_error("no element type: " + std::string(name));
}

template <class Numbers>
std::string joined(const Numbers& numbers, const char* separator) {
  std::string text;
  for (const auto n : numbers) text += (text.empty() ? "" : separator) + std::to_string(n);
  return text;
}

void write(std::string& out, const Node& node, int indent) {
  if (info(node.kind).cls == KindClass::Statement) out += "\n" + std::string(static_cast<std::size_t>(2 * indent), ' ');
  out += std::string("(") + info(node.kind).word;
  if (node.given != Type{}) out += " " + to_text(node.given);
  for (const std::int64_t n : node.n) out += " " + std::to_string(n);
  for (const Node& kid : node.kids) {
    const bool statement = info(kid.kind).cls == KindClass::Statement;
    if (!statement) out += " ";
    write(out, kid, indent + 1);
  }
  out += ")";
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) { advance(); }
  std::string_view word() const { return word_; }
  bool done() const { return word_.empty(); }
  void advance() {
    std::size_t at = text_.find_first_not_of(" \n\t");
    if (at == text_.npos) {
      word_ = {};
      return;
    }
    std::size_t end = text_[at] == '(' || text_[at] == ')' ? at + 1 : text_.find_first_of(" \n\t()", at);
    if (end == text_.npos) end = text_.size();
    word_ = text_.substr(at, end - at);
    text_.remove_prefix(end);
  }
  std::string_view take() {
    const std::string_view w = word_;
    advance();
    return w;
  }
  void expect(std::string_view w) {
    if (word_ != w) fail("expected \"" + std::string(w) + "\"");
    advance();
  }
  bool accept(std::string_view w) {
    if (word_ != w) return false;
    advance();
    return true;
  }
  bool at_number() const { return !word_.empty() && (word_[0] == '-' || (word_[0] >= '0' && word_[0] <= '9')); }
  template <class N = std::int64_t>
  N number() {
    N n{};
    const auto [end, error] = std::from_chars(word_.data(), word_.data() + word_.size(), n);
    if (error != std::errc() || end != word_.data() + word_.size()) fail("expected a number");
    advance();
    return n;
  }
  template <class N>
  std::vector<N> numbers() {
    std::vector<N> all;
    while (at_number()) all.push_back(static_cast<N>(number()));
    return all;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + ", found \"" + std::string(word_) + "\"");
  }

 private:
  std::string_view text_, word_;
};

/// "f32:4x8", "i32" for a scalar.
Type type_named(std::string_view word) {
  const std::size_t colon = word.find(':');
  Type t = Type::scalar(element_named(word.substr(0, colon)));
  for (std::size_t at = colon; at != word.npos; at = word.find('x', at + 1)) {
    if (t.rank == kMaxAxes) throw std::runtime_error("too many axes");
    std::from_chars(word.data() + at + 1, word.data() + word.size(), t[t.rank++]);
  }
  return t;
}

Kind kind_named(std::string_view word) {
  static const auto* const words = [] {
    auto* map = new std::unordered_map<std::string_view, Kind>;
    for (int k = 0; k <= static_cast<int>(Kind::Check); ++k) {
      (*map)[info(static_cast<Kind>(k)).word] = static_cast<Kind>(k);
    }
    return map;
  }();
  const auto found = words->find(word);
  if (found == words->end()) throw std::runtime_error("no such node: " + std::string(word));
  return found->second;
}

Node read_node(Reader& r) {
  r.expect("(");
  Node node;
  node.kind = kind_named(r.take());
  if (!r.at_number() && r.word() != "(" && r.word() != ")") node.given = type_named(r.take());
  node.n = r.numbers<std::int64_t>();
  while (r.word() == "(") node.kids.push_back(read_node(r));
  r.expect(")");
  return node;
}

Param read_param(Reader& r) {
  Param p;
  const std::string_view word = r.take();
  for (std::size_t k = 0; k < std::size(kParamWords); ++k) {
    if (word == kParamWords[k]) p.kind = static_cast<ParamKind>(k);
  }
  p.elem = element_named(r.take());
  p.extents = r.numbers<int>();
  return p;
}

Function read_function(Reader& r) {
  Function f;
  while (r.word() == "value" || r.word() == "reference") {
    Function::Parameter p;
    p.by_reference = r.take() == "reference";
    p.type = type_named(r.take());
    p.var = r.number<int>();
    f.params.push_back(p);
  }
  f.body = read_node(r);
  return f;
}

Launch read_launch(Reader& r) {
  Launch l;
  l.blocks = r.number<int>();
  l.wide_grid = r.accept("wide");
  while (r.word() == "tensor" || r.word() == "number") {
    if (r.take() == "number") {
      l.scalars.push_back(r.number());
      continue;
    }
    Layout t;
    t.dims = r.numbers<std::int64_t>();
    r.expect("strides");
    t.strides = r.numbers<std::int64_t>();
    r.expect("around");
    t.before = r.number();
    t.after = r.number();
    r.expect("fill");
    t.fill = r.number<std::uint64_t>();
    l.tensors.push_back(std::move(t));
  }
  return l;
}

}  // namespace

std::string to_text(const Type& t) {
  std::string text = tessera::info(t.elem).name;
  for (int a = 0; a < t.rank; ++a) text += (a == 0 ? ":" : "x") + std::to_string(t[a]);
  return text;
}

std::string to_text(const Program& p) {
  std::string out = "program " + std::to_string(p.seed) + "\n";
  for (const Param& param : p.params) {
    out += std::string("param ") + kParamWords[static_cast<int>(param.kind)] + " " + tessera::info(param.elem).name;
    out += (param.extents.empty() ? "" : " ") + joined(param.extents, " ") + "\n";
  }
  for (const View& v : p.views) out += "view " + std::to_string(v.param) + " " + joined(v.order, " ") + "\n";
  for (const Function& f : p.functions) {
    out += "function";
    for (const auto& a : f.params) {
      out += std::string(a.by_reference ? " reference " : " value ") + to_text(a.type) + " " + std::to_string(a.var);
    }
    write(out, f.body, 1);
    out += "\n";
  }
  out += "body";
  write(out, p.body, 1);
  out += "\n";
  for (const Launch& l : p.launches) {
    out += "launch " + std::to_string(l.blocks) + (l.wide_grid ? " wide" : "") + "\n";
    for (const Layout& t : l.tensors) {
      out += "  tensor " + joined(t.dims, " ") + " strides " + joined(t.strides, " ") + " around " +
             std::to_string(t.before) + " " + std::to_string(t.after) + " fill " + std::to_string(t.fill) + "\n";
    }
    for (const std::int64_t s : l.scalars) out += "  number " + std::to_string(s) + "\n";
  }
  return out;
}

void set_lines(Program& p) {
  int line = 1 + static_cast<int>(p.params.size() + p.views.size());
  const auto set = [&](Node& body) {
    ++line;  // of what precedes the body
    each_node(body, [&](Node& n) {
      if (info(n.kind).cls == KindClass::Statement) ++line;
      n.line = line;
    });
  };
  for (Function& f : p.functions) set(f.body);
  set(p.body);
}

Program from_text(std::string_view text) {
  Reader r(text);
  Program p;
  r.expect("program");
  p.seed = r.number<std::uint64_t>();
  while (!r.done()) {
    if (r.accept("param")) {
      p.params.push_back(read_param(r));
    } else if (r.accept("view")) {
      View v;
      v.param = r.number<int>();
      v.order = r.numbers<int>();
      p.views.push_back(std::move(v));
    } else if (r.accept("function")) {
      p.functions.push_back(read_function(r));
    } else if (r.accept("body")) {
      p.body = read_node(r);
    } else if (r.accept("launch")) {
      p.launches.push_back(read_launch(r));
    } else {
      r.fail("expected a line of a program");
    }
  }
  return p;
}

}  // namespace tessera::generate
