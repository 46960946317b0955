// Modules, functions and operations as text; what an operation looks like is its row in formats.def.
#include "tessera/ir/printer.hpp"

#include "ir/formats.hpp"
#include "ir/text_values.hpp"
#include "ir/value_names.hpp"
#include "tessera/base/format.hpp"

namespace tessera::ir {

namespace {

class Printer {
 public:
  Printer(PrintOptions options, ValueNames names) : options_(options), names_(std::move(names)) {}

  void function(const Function& f) {
    out_ += concat("entry ", symbol_text(f.name), "(", arguments(f.body()), ")");
    if (!f.entry) out_.replace(0, 5, "func");
    if (!f.hints.entries.empty()) out_ += " optimization_hints=" + hints_text(f.hints);
    out_ += ' ';
    body(f.body(), true);
    location(f.loc);
    out_ += "\n";
  }

  void operation(const Operation& op) {
    indent();
    const std::string results = names_.results(op);
    if (!results.empty()) out_ += results + " = ";
    out_ += op.info().mnemonic;
    const std::span<const FormatItem> items = format_items(op.op());
    for (std::size_t i = 0; i < items.size();) {
      const FormatItem& item = items[i++];
      if (item.kind != FormatItem::Kind::Optional)
        this->item(op, item);
      else if (!present(op, item.text))
        i = item.end;
    }
    if (items.empty()) plain(op);
    location(op.loc);
    out_ += '\n';
  }

  std::string take() { return std::move(out_); }

 private:
  void indent() { out_.append(static_cast<std::size_t>(2 * depth_), ' '); }

  void location(const SourceLocation& loc) {
    if (!options_.locations) return;
    out_ += loc.known() ? concat(" loc(", quoted_text(loc.file), ":", loc.line, ":", loc.column, ")") : " loc(unknown)";
  }

  std::string arguments(const Block& block) {
    std::string text;
    for (std::size_t i = 0; i < block.num_args(); ++i)
      text += concat(i == 0 ? "" : ", ", names_.use(block.arg(i)), ": ", block.arg(i).type().str());
    return text;
  }

  /// `{ ... }`; an operand-less terminator of kind `implicit` is left out, unless its location is to be shown.
  void body(const Block& block, bool terminator, Op implicit = Op::Return) {
    out_ += "{\n";
    ++depth_;
    for (const Operation& op : block) {
      const bool last = op.next() == nullptr;
      if (last && !terminator && !options_.locations && op.op() == implicit && op.num_operands() == 0) break;
      operation(op);
    }
    --depth_;
    indent();
    out_ += '}';
  }

  /// Operands, and the one type that an operation without a row has.
  void plain(const Operation& op) {
    for (std::size_t i = 0; i < op.num_operands(); ++i) out_ += (i == 0 ? " " : ", ") + names_.use(op.operand(i));
    if (op.num_results() != 0) out_ += " : " + op.result(0).type().str();
  }

  std::string values(const Operation& op, std::string_view group) {
    std::string text;
    for (Value v : op.group(group)) text += (text.empty() ? "" : ", ") + names_.use(v);
    return text;
  }

  std::string types(const Operation& op, std::string_view group) {
    std::string text;
    auto add = [&text](Type t) { text += (text.empty() ? "" : ", ") + t.str(); };
    if (op.info().operand_group(group) >= 0) {
      for (Value v : op.group(group)) add(v.type());
      return text;
    }
    const auto& declared = op.info().results;
    for (std::size_t i = 0; i < declared.size(); ++i) {
      if (declared[i].name != group) continue;
      const std::size_t end = declared[i].arity == Arity::Variadic ? op.num_results() : i + 1;
      for (std::size_t r = i; r < end && r < op.num_results(); ++r) add(op.result(r).type());
    }
    return text;
  }

  const AttrInfo* attribute_info(const Operation& op, std::string_view name) {
    for (const AttrInfo& a : op.info().attributes)
      if (name == text(a.name)) return &a;
    return nullptr;
  }

  /// An operand group that is not empty, or an attribute that is there and says more than its absence.
  bool present(const Operation& op, std::string_view name) {
    if (op.info().operand_group(name) >= 0) return !op.group(name).empty();
    const AttrInfo* a = attribute_info(op, name);
    const Attribute* value = a ? op.attr(a->name) : nullptr;
    if (!value) return false;
    if (const auto* dict = value->as<DictAttr>()) return !dict->entries.empty();
    if (const auto* flags = value->as<BoolArrayAttr>()) {
      for (bool flag : flags->values)
        if (flag) return true;
      return false;
    }
    return true;
  }

  std::string attribute(const Operation& op, std::string_view name) {
    const AttrInfo* a = attribute_info(op, name);
    const Attribute* value = a ? op.attr(a->name) : nullptr;
    if (value) return attribute_text(a->kind, *value);
    if (a && a->implied >= 0 && a->kind == AttrKind::Bool) return a->implied != 0 ? "true" : "false";
    return a && a->implied >= 0 ? enum_text(a->kind, static_cast<std::uint8_t>(a->implied)) : "<<missing>>";
  }

  /// `^name`: flags by name, enumerations as keyword<value> unless implied.
  void switched(const Operation& op, std::string_view name) {
    const AttrInfo* a = attribute_info(op, name);
    const Attribute* value = op.attr(a->name);
    if (a->kind == AttrKind::Unit) {
      if (value) out_ += concat(" ", name);
      return;
    }
    const bool implied = !value || value->as<EnumAttr>()->value == a->implied;
    const bool custom = name == "rounding_mode";
    if (custom && implied) out_ += ' ';
    if (implied) return;
    out_ += concat(" ", custom ? "rounding" : name, "<", attribute(op, name), ">");
  }

  std::string index_types(const Operation& op) {
    std::vector<Value> indices = op.group("index");
    bool equal = true;
    for (Value v : indices) equal = equal && v.type() == indices.front().type();
    std::string text;
    for (Value v : indices) {
      text += (text.empty() ? "" : ", ") + v.type().str();
      if (equal) break;
    }
    return text;
  }

  void item(const Operation& op, const FormatItem& item) {
    using Kind = FormatItem::Kind;
    if (item.kind == Kind::Inferred) return;
    if (item.kind == Kind::Switch) return switched(op, item.text);
    if (!item.glued) out_ += ' ';
    switch (item.kind) {
      case Kind::Literal: out_ += item.text; break;
      case Kind::Values: out_ += values(op, item.text); break;
      case Kind::Types: out_ += types(op, item.text); break;
      case Kind::Attribute: out_ += attribute(op, item.text); break;
      case Kind::OneType: out_ += op.num_results() == 0 ? std::string() : op.result(0).type().str(); break;
      case Kind::IndexTypes: out_ += index_types(op); break;
      case Kind::Region: region(op); break;
      default: custom(op); break;
    }
  }

  void region(const Operation& op) {
    out_ += '\n';
    indent();
    out_ += "(" + (op.num_regions() == 0 ? std::string() : arguments(op.region(0))) + ") ";
    if (op.num_regions() != 0) body(op.region(0), true);
  }

  void custom(const Operation& op) {
    switch (op.op()) {
      case Op::For: return for_op(op);
      case Op::Loop: return loop_op(op);
      case Op::If: return if_op(op);
      default: return tensor_view(op);
    }
  }

  /// `%a = %x, %b = %y` for the arguments from `first` on.
  std::string iteration_values(const Operation& op, std::size_t first) {
    std::string text;
    std::vector<Value> initial = op.group("initValues");
    for (std::size_t i = 0; i < initial.size(); ++i) {
      const Block& block = op.region(0);
      const std::string arg = first + i < block.num_args() ? names_.use(block.arg(first + i)) : "<<missing>>";
      text += concat(i == 0 ? "" : ", ", arg, " = ", names_.use(initial[i]));
    }
    return text;
  }

  void for_op(const Operation& op) {
    const Block& block = op.region(0);
    if (op.has_attr(AttrName::unsignedCmp)) out_ += "unsigned ";
    const std::string induction = block.num_args() == 0 ? "<<missing>>" : names_.use(block.arg(0));
    out_ += concat(induction, " in (", names_.use(op.single("lowerBound")), " to ", names_.use(op.single("upperBound")),
                   ", step ", names_.use(op.single("step")), ") : ", op.single("lowerBound").type().str(), " ");
    if (!op.group("initValues").empty())
      out_ += concat("iter_values(", iteration_values(op, 1), ") -> (", types(op, "initValues"), ") ");
    body(block, false, Op::Continue);
  }

  void loop_op(const Operation& op) {
    const bool carries = !op.group("initValues").empty(), returns = op.num_results() != 0;
    if (carries) out_ += concat("iter_values(", iteration_values(op, 0), ") ");
    if (carries || returns) out_ += ": ";
    if (carries) out_ += types(op, "initValues") + (returns ? " -> " : " ");
    if (returns) out_ += types(op, "resultValues") + " ";
    body(op.region(0), false, Op::Continue);
  }

  void if_op(const Operation& op) {
    out_ += names_.use(op.single("condition")) + " ";
    if (op.num_results() != 0) out_ += concat("-> (", types(op, "results"), ") ");
    for (std::size_t r = 0; r < op.num_regions(); ++r) {
      if (r == 1 && op.region(r).empty()) break;
      if (r == 1) out_ += " else ";
      body(op.region(r), false, Op::Yield);
    }
  }

  void tensor_view(const Operation& op) {
    const Type view = op.result().type();
    auto list = [this](std::span<const std::int64_t> entries, const std::vector<Value>& dynamic) {
      std::string text;
      std::size_t next = 0;
      for (std::int64_t entry : entries) {
        if (!text.empty()) text += ", ";
        if (entry != kDynamic)
          text += std::to_string(entry);
        else
          text += next < dynamic.size() ? names_.use(dynamic[next++]) : "<<missing>>";
      }
      return text;
    };
    const std::vector<Value> shape = op.group("dynamicShape"), strides = op.group("dynamicStrides");
    out_ += concat(names_.use(op.single("base")), ", shape = [", list(view.shape(), shape), "], strides = [",
                   list(view.strides(), strides), "] : ");
    if (!shape.empty() || !strides.empty()) out_ += (shape.empty() ? strides : shape).front().type().str() + " -> ";
    out_ += view.str();
  }

  PrintOptions options_;
  ValueNames names_;
  std::string out_;
  int depth_ = 0;
};

std::string global_text(const Global& g) {
  std::string out =
      concat("global ", g.is_private ? "private " : "", g.constant ? " constant" : "", " ", symbol_text(g.name));
  if (g.alignment != 0) out += concat(" alignment = ", g.alignment);
  return concat(out, " ", dense_text(g.value), "\n");
}

}  // namespace

std::string print(const Module& module, PrintOptions options) {
  std::string out;
  if (!module.producer.empty()) out += concat(kProducerComment, escaped_text(module.producer), "\n");
  for (const Global& g : module.globals) out += global_text(g);
  for (const auto& f : module.functions) out += print(*f, options);
  return out;
}

std::string print(const Function& function, PrintOptions options) {
  Printer printer(options, ValueNames(function));
  printer.function(function);
  return printer.take();
}

std::string print(const Operation& op, PrintOptions options) {
  const Function* function = op.function();
  Printer printer(options, function ? ValueNames(*function) : ValueNames());
  printer.operation(op);
  std::string text = printer.take();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace tessera::ir
