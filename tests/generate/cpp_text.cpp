// Prints a program as C++: statements, values, then a main() with the launches.
#include "generate/cpp_text.hpp"

#include <cmath>
#include <cstdio>

#include "generate/memory.hpp"
#include "generate/number.hpp"

namespace tessera::generate {
namespace {

std::string str(std::int64_t n) { return std::to_string(n); }
const char* name_of(ElementType e) { return tessera::info(e).name; }

template <class Numbers>
std::string list(const Numbers& numbers) {
  std::string text;
  for (const auto n : numbers) text += (text.empty() ? "" : ", ") + (n == -1 ? std::string("dyn") : str(n));
  return text;
}
std::string extents(const Type& t) { return list(t.span()); }
std::string shape(const Type& t) { return "shape<" + extents(t) + ">"; }
std::string tile(const Type& t) {
  return t.rank == 0 ? std::string("Scalar<") + name_of(t.elem) + ">"
                     : std::string("Tile<") + name_of(t.elem) + ", " + extents(t) + ">";
}

std::string real_text(double v, ElementType e) {
  const std::string suffix = e == ElementType::f64 ? "" : "f";
  if (std::isnan(v)) return "float(NAN)";
  if (std::isinf(v)) return v > 0 ? "float(INFINITY)" : "-float(INFINITY)";
  char text[64];
  std::snprintf(text, sizeof text, "%.17g", v);
  std::string s = text;
  if (s.find_first_of(".e") == s.npos) s += ".0";
  return s + suffix;
}
/// A number of the host.
std::string literal_text(const Node& n) {
  const ElementType e = n.given.elem;
  if (n.kind == Kind::Infinity) return real_text(n.n[0] == 0 ? std::nan("") : n.n[0] > 0 ? INFINITY : -INFINITY, e);
  if (is_float(e)) return real_text(static_cast<double>(n.n[0]) / 4, e);
  if (e == ElementType::boolean) return n.n[0] != 0 ? "true" : "false";
  return str(n.n[0]);
}
bool is_number(const Node& n) { return n.kind == Kind::Number || n.kind == Kind::Infinity; }
bool is_host_number(const Node& n) { return is_number(n) && n.given.rank == 0; }

class Printer {
 public:
  explicit Printer(const Program& p) : p_(p) {}

  std::string functions() {
    for (std::size_t f = 0; f < p_.functions.size(); ++f) {
      std::string params;
      for (const auto& a : p_.functions[f].params) {
        params += (params.empty() ? "" : ", ") + tile(a.type) + (a.by_reference ? "& v" : " v") + str(a.var);
      }
      out_ += "void f" + str(static_cast<std::int64_t>(f)) + "(" + params + ") {\n";
      indent_ = 1;
      block(p_.functions[f].body);
      out_ += "}\n\n";
    }
    return std::move(out_);
  }
  std::string kernel() {
    static constexpr const char* kKinds[] = {"Mut", "MutTiles", "In", "Scalar", "Acc", "Constant"};
    std::string params;
    for (std::size_t i = 0; i < p_.params.size(); ++i) {
      const Param& param = p_.params[i];
      params += (i == 0 ? "" : ", ") + std::string(kKinds[static_cast<int>(param.kind)]) + "<" + name_of(param.elem) +
                (param.extents.empty() ? "" : ", ") + list(param.extents) + "> a" + str(static_cast<std::int64_t>(i));
    }
    out_ = "void generated(" + params + ") {\n";
    indent_ = 1;
    for (std::size_t v = 0; v < p_.views.size(); ++v) {
      line("auto w" + str(static_cast<std::int64_t>(v)) + " = a" + str(p_.views[v].param) + ".permuted(order<" +
           list(p_.views[v].order) + ">);");
    }
    for (std::size_t i = 0; i < p_.params.size(); ++i) {
      if (p_.params[i].kind == ParamKind::Mut) parts(i, "a" + str(static_cast<std::int64_t>(i)));
    }
    block(p_.body);
    return std::move(out_) + "}\n";
  }

 private:
  void line(const std::string& text) { out_ += std::string(static_cast<std::size_t>(2 * indent_), ' ') + text + "\n"; }
  void parts(std::size_t param, const std::string& whole) {
    const int axis = part_axis(p_.params[param]);
    if (axis < 0) return;
    std::string names;
    const auto count = parts_of(p_.params[param].extents[static_cast<std::size_t>(axis)]).size();
    for (std::size_t k = 0; k < count; ++k)
      names += (k == 0 ? "" : ", ") + whole + "_" + str(static_cast<std::int64_t>(k));
    line("auto [" + names + "] = " + whole + ".parts();");
  }

  // ---- statements ---------------------------------------------------------------------------------------------------

  void block(const Node& n) {
    for (const Node& kid : n.kids) statement(kid);
  }
  void braced(const std::string& head, const Node& body, const std::string& first = {}, const std::string& last = {}) {
    line(head + " {");
    ++indent_;
    if (!first.empty()) line(first);
    block(body);
    if (!last.empty()) line(last);
    --indent_;
  }
  void statement(const Node& n) {
    const auto var = [&] { return "v" + str(n.n[0]); };
    switch (n.kind) {
      case Kind::Body: return block(n);
      case Kind::Let: return line(tile(n.kids[0].type) + " " + var() + " = " + operand(n.kids[0]) + ";");
      case Kind::Set: return line(var() + " = " + operand(n.kids[0]) + ";");
      case Kind::If:
        braced("tile_if (" + value(n.kids[0]) + ")", n.kids[1]);
        if (!n.kids[2].kids.empty()) braced("} else", n.kids[2]);
        return line("}");
      case Kind::HostIf:
        braced("if (" + host_number(n) + " >= " + str(n.n[1]) + ")", n.kids[0]);
        if (!n.kids[1].kids.empty()) braced("} else", n.kids[1]);
        return line("}");
      case Kind::HostFor:
        braced("for (int n = 0; n < " + str(n.n[1]) + " && n < " + host_number(n) + "; ++n)", n.kids[0]);
        return line("}");
      case Kind::For: {
        const std::string bounds = value(n.kids[0]) + ", " + value(n.kids[1]) + ", " + operand(n.kids[2]);
        braced("for (auto " + var() + " : range(" + bounds + "))", n.kids[3]);
        return line("}");
      }
      case Kind::While:
        line("Scalar<i32> " + var() + " = 0;");
        braced("tile_while (" + var() + " < " + str(n.n[1]) + " && " + value(n.kids[0]) + ")", n.kids[1], {},
               var() + " = " + var() + " + 1;");
        return line("}");
      case Kind::TileLoop: {
        static constexpr const char* kOrders[] = {"row_order(", "column_order(", "grouped("};
        const std::string whole = "t" + str(n.n[0]);
        line("for (auto " + whole + " : a" + str(n.n[0]) + "." + kOrders[n.n[1]] + (n.n[1] == 2 ? str(n.n[2]) : "") +
             ")) {");
        ++indent_;
        parts(static_cast<std::size_t>(n.n[0]), whole);
        block(n.kids[0]);
        --indent_;
        return line("}");
      }
      case Kind::Call: return line("f" + str(n.n[0]) + "(" + values(n, 0, n.kids.size(), true) + ");");
      case Kind::Require: return line("require(" + value(n.kids[0]) + ", \"a requirement\");");
      case Kind::Check: return line("check(" + value(n.kids[0]) + ", \"a check\");");
      default: return line(write(n));
    }
  }
  std::string write(const Node& n) {
    const std::size_t last = n.kids.size() - 1;
    switch (n.kind) {
      case Kind::Store: return piece(n.n[0]) + ".store(" + value(n.kids[0]) + ");";
      case Kind::StoreSub:
        return piece(n.n[0]) + ".sub(" + shape(n.kids[last].type) + ").store(" + values(n, 0, last) + ", " +
               value(n.kids[last]) + ");";
      case Kind::Scatter:
        return piece(n.n[0]) + ".scatter(axis<" + str(n.n[1]) + ">, " + value(n.kids[0]) + ", " + value(n.kids[1]) +
               ");";
      case Kind::ScatterElements: return piece(n.n[0]) + ".scatter(" + values(n, 0, last + 1) + ");";
      case Kind::Accumulate: {
        static constexpr const char* kOps[] = {"add", "max", "min", "bit_and", "bit_or", "bit_xor"};
        return "a" + str(n.n[0]) + "." + kOps[n.n[1]] + "(" + values(n, 0, last + 1) + ");";
      }
      default:
        return "a" + str(n.n[0]) + ".tiles(" + shape(n.kids[last].type) + ").add(" + values(n, 0, last) + ", " +
               value(n.kids[last]) + ");";
    }
  }

  // ---- values -------------------------------------------------------------------------------------------------------

  std::string tensor(std::int64_t n) const { return n >= kFirstView ? "w" + str(n - kFirstView) : "a" + str(n); }
  std::string piece(std::int64_t n) const {
    const auto param = static_cast<std::size_t>(param_of(n));
    const std::string whole = (p_.params[param].kind == ParamKind::Mut ? "a" : "t") + str(param_of(n));
    return part_axis(p_.params[param]) < 0 || part_of(n) == kWhole ? whole : whole + "_" + str(part_of(n));
  }
  std::string values(const Node& n, std::size_t from, std::size_t to, bool literals = true) {
    std::string text;
    for (std::size_t i = from; i < to; ++i) {
      const bool plain = literals && n.kids[i].type.elem == ElementType::i32;
      text += (i == from ? "" : ", ") + (plain ? operand(n.kids[i]) : value(n.kids[i]));
    }
    return text;
  }
  /// A host number may be used here.
  std::string operand(const Node& n) { return is_host_number(n) ? literal_text(n) : value(n); }
  std::string pad(const Node& n, std::int64_t kind) {
    static constexpr const char* kPads[] = {"pad::zero", "pad::neg_inf", "pad::pos_inf", "pad::nan"};
    return kind == 4 ? "pad(" + operand(n.kids.back()) + ")" : kPads[kind];
  }

  std::string value(const Node& n) {
    const KindInfo& row = info(n.kind);
    const std::string word = row.cpp;
    switch (row.cls) {
      case KindClass::Leaf: return leaf(n);
      case KindClass::Load: return load(n);
      case KindClass::Unary: return word + "(" + value(n.kids[0]) + ")";
      case KindClass::Binary:
      case KindClass::Compare: {
        const bool both = is_host_number(n.kids[0]) && is_host_number(n.kids[1]);
        const std::string a = both ? value(n.kids[0]) : operand(n.kids[0]), b = operand(n.kids[1]);
        const bool function = word[0] >= 'a' && word[0] <= 'z';
        return function ? word + "(" + a + ", " + b + ")" : "(" + a + " " + word + " " + b + ")";
      }
      case KindClass::Reduce:
        return word + "(" + value(n.kids[0]) + (n.n[0] < 0 ? ")" : ", axis<" + str(n.n[0]) + ">)");
      case KindClass::Scan:
        return word + "(" + value(n.kids[0]) + ", axis<" + str(n.n[0]) + ">" + (n.n[1] != 0 ? ", backward)" : ")");
      case KindClass::Other: return other(n);
      case KindClass::Statement: break;
    }
    return "?";
  }
  static std::string host_number(const Node& n) { return "std::int64_t(a" + str(n.n[0]) + ")"; }
  std::string leaf(const Node& n) {
    const auto axis = [&] { return "(" + str(n.n[1]) + ")"; };
    switch (n.kind) {
      case Kind::Var: return "v" + str(n.n[0]);
      case Kind::Number:
      case Kind::Infinity:
        if (n.given.rank == 0) return tile(n.given) + "(" + literal_text(n) + ")";
        return std::string("full<") + name_of(n.given.elem) + ", " + extents(n.given) + ">(" + literal_text(n) + ")";
      case Kind::Iota:
        return std::string("iota<") + name_of(n.given.elem) + ", " + extents(n.given) + ">(axis<" + str(n.n[0]) + ">)";
      case Kind::ScalarArg: return "a" + str(n.n[0]);
      case Kind::ConstantArg: return tile(n.type) + "(a" + str(n.n[0]) + ")";
      case Kind::Dim: return tensor(n.n[0]) + ".dim" + axis();
      case Kind::Stride: return tensor(n.n[0]) + ".stride" + axis();
      case Kind::Count: {
        const bool scheduled =
            n.n[0] < kFirstView && p_.params[static_cast<std::size_t>(n.n[0])].kind == ParamKind::MutTiles;
        return tensor(n.n[0]) + (scheduled ? "" : ".tiles(" + shape(n.given) + ")") + ".count" + axis();
      }
      case Kind::PieceIndex: return piece(n.n[0]) + ".index()[" + str(n.n[1]) + "]";
      case Kind::PieceOrigin: return piece(n.n[0]) + ".origin()[" + str(n.n[1]) + "]";
      case Kind::PieceDim: return piece(n.n[0]) + ".dim" + axis();
      case Kind::PieceCount: return piece(n.n[0]) + ".count" + axis();
      case Kind::PieceOffsets: return piece(n.n[0]) + ".offsets()";
      case Kind::Block: return "Scalar<i32>(block_id<1>())";
      default: return "num_blocks()";
    }
  }
  std::string load(const Node& n) {
    const auto rank = static_cast<std::size_t>(n.type.rank);
    switch (n.kind) {
      case Kind::LoadPiece: return piece(n.n[0]) + ".load(" + pad(n, n.n[1]) + ")";
      case Kind::LoadLike: {
        const std::vector<std::int64_t> axes(n.n.begin() + 4, n.n.end());
        return tensor(n.n[0]) + ".load_like(" + piece(n.n[1]) + ", axes<" + list(axes) + ">, " +
               (n.n[3] == 1 ? "partial, " : "") + pad(n, n.n[2]) + ")";
      }
      case Kind::LoadTile:
        return tensor(n.n[0]) + ".tiles(" + shape(n.type) + ", " + pad(n, n.n[1]) + ").load(" + values(n, 0, rank) +
               ")";
      case Kind::LoadAt:
        return tensor(n.n[0]) + ".load_at(" + shape(n.type) + ", " + values(n, 0, rank) + ", " + pad(n, n.n[1]) + ")";
      case Kind::LoadSub:
        return piece(n.n[0]) + ".sub(" + shape(n.type) + ").load(" + values(n, 0, rank) + ", " + pad(n, n.n[1]) + ")";
      case Kind::Gather:
      case Kind::PieceGather: {
        const std::string from = n.kind == Kind::Gather ? tensor(n.n[0]) : piece(n.n[0]);
        return from + ".gather(axis<" + str(n.n[1]) + ">, " + value(n.kids[0]) + ", " + pad(n, n.n[2]) + ")";
      }
      case Kind::GatherElements: return tensor(n.n[0]) + ".gather(" + values(n, 0, n.kids.size()) + ")";
      default: return piece(n.n[0]) + ".gather(" + values(n, 0, n.kids.size()) + ")";
    }
  }
  std::string other(const Node& n) {
    const std::string x = value(n.kids[0]), element = std::string("<") + name_of(n.type.elem) + ">";
    switch (n.kind) {
      case Kind::Where: return "where(" + x + ", " + value(n.kids[1]) + ", " + operand(n.kids[2]) + ")";
      case Kind::Fma: return "fma(" + x + ", " + value(n.kids[1]) + ", " + value(n.kids[2]) + ")";
      case Kind::Cast: return "cast" + element + "(" + x + (n.n[0] != 0 ? ", saturate)" : ")");
      case Kind::Bitcast: return "bitcast" + element + "(" + x + ")";
      case Kind::Reshape: return "reshape(" + x + ", " + shape(n.type) + ")";
      case Kind::Broadcast: return "broadcast(" + x + ", " + shape(n.type) + ")";
      case Kind::Permute: return "permute(" + x + ", order<" + list(n.n) + ">)";
      case Kind::Cat: return "cat(" + x + ", " + value(n.kids[1]) + ", axis<" + str(n.n[0]) + ">)";
      case Kind::Extract: return "extract(" + x + ", " + shape(n.type) + ", " + values(n, 1, n.kids.size()) + ")";
      case Kind::Mma: return "mma(" + x + ", " + value(n.kids[1]) + ", " + value(n.kids[2]) + ")";
      case Kind::Uniform: return "random::uniform" + element + "(" + x + ", " + value(n.kids[1]) + ")";
      case Kind::ArgMax:
      case Kind::ArgMin:
        return std::string(n.kind == Kind::ArgMax ? "argmax(" : "argmin(") + x + ", axis<" + str(n.n[0]) + ">)" +
               (n.n[1] == 1 ? ".index" : ".value");
      default: {
        using lang::BinaryOp;
        const auto op = static_cast<BinaryOp>(n.n[0]);
        const char* const sign = op == BinaryOp::Add   ? "+"
                                 : op == BinaryOp::Mul ? "*"
                                 : op == BinaryOp::Xor ? "^"
                                                       : "|";
        return "reduce(" + x + ", axis<" + str(n.n[1]) + ">, " + (op == BinaryOp::Mul ? "1" : "0") +
               ", [](auto a, auto b) { return a " + sign + " b; })";
      }
    }
  }

  const Program& p_;
  std::string out_;
  int indent_ = 0;
};

// ---- the host's side
// --------------------------------------------------------------------------------------------------

std::string storage(const Placed& t, const Memory& memory) {
  const auto size = static_cast<std::size_t>(tessera::info(t.elem).bits / 8);
  std::string text;
  for (std::size_t at = 0; at < t.bytes; at += size) {
    const Cell v = load(t.elem, memory.initial.data() + t.storage + at);
    const std::string number = is_float(t.elem) ? real_text(v.d, t.elem) : str(v.i);
    const bool narrow = is_float(t.elem) && t.elem != ElementType::f32 && t.elem != ElementType::f64;
    text += (at == 0 ? "" : ", ") +
            (narrow || !is_float(t.elem) ? std::string(name_of(t.elem)) + "(" + number + ")" : number);
  }
  return text.empty() ? std::string(name_of(t.elem)) + "(0)" : text;
}

std::string launch(const Program& p, const Launch& l) {
  Memory memory;
  if (!memory.make(p, l)) return "  // a launch that is too large\n";
  std::string text = "  {\n", arguments;
  std::size_t tensor = 0, scalar = 0;
  for (std::size_t i = 0; i < p.params.size(); ++i) {
    const Param& param = p.params[i];
    const std::string n = str(static_cast<std::int64_t>(i)), comma = i == 0 ? "" : ", ";
    if (!param.is_tensor()) {
      const std::int64_t v = l.scalars[scalar++];
      const std::string number = is_float(param.elem) ? real_text(static_cast<double>(v) / 4, param.elem) : str(v);
      arguments += comma + name_of(param.elem) + "(" + number + ")";
      continue;
    }
    const Placed& t = memory.tensors[tensor++];
    text += std::string("    auto s") + n + " = storage<" + name_of(param.elem) + ">({" + storage(t, memory) + "});\n";
    text += "    auto x" + n + " = borrow<" + name_of(param.elem) + ", " + str(param.rank()) + ">(s" + n + ".get() + " +
            str(t.layout->before) + ", {" + list(t.layout->dims) + "}, {" + list(t.layout->strides) + "}, s" + n +
            ");\n";
    arguments += comma + (param.kind == ParamKind::In ? "x" + n : "mut(x" + n + ")");
  }
  bool own = false;
  for (const Param& param : p.params) own = own || param.kind == ParamKind::Mut;
  text += "    kernel<generated>" + (own ? std::string() : ".blocks(" + str(l.blocks) + ")") + "(" + arguments +
          ").sync();\n";
  for (std::size_t i = 0; i < p.params.size(); ++i) {
    if (p.params[i].is_tensor() && p.params[i].kind != ParamKind::In)
      text += "    print(x" + str(static_cast<std::int64_t>(i)) + ");\n";
  }
  return text + "  }\n";
}

}  // namespace

std::string to_cpp(const Program& p) {
  std::string text =
      "// Generated by tests/generate; runs on the CPU.\n#include <cmath>\n#include <initializer_list>\n#include "
      "<memory>\n\n#include <tessera/tessera.hpp>\n\nusing namespace tessera;\n\n";
  text += Printer(p).functions() + Printer(p).kernel();
  text +=
      "\ntemplate <class T>\nstd::shared_ptr<T> storage(std::initializer_list<T> values) {\n  std::shared_ptr<T> s(new "
      "T[values.size()], std::default_delete<T[]>());\n  std::copy(values.begin(), values.end(), s.get());\n  return "
      "s;\n}\n\nint main() {\n";
  for (const Launch& l : p.launches) text += launch(p, l);
  return text + "}\n";
}

}  // namespace tessera::generate
