// Statements, variables and calls. Scopes are Jinja's: loops, macros and `with` have their own, `if` has none.
#include "text/jinja_machine.hpp"

#include <algorithm>

#include "tessera/base/format.hpp"
#include "text/utf8.hpp"

namespace mortar::text::jinja {

using tessera::concat;

namespace {
constexpr std::size_t kMaxCharacters = std::size_t{1} << 20;
}

class Machine::Scope {
 public:
  explicit Scope(Machine& m) : m_(m) { m_.frames_.emplace_back(); }
  ~Scope() { m_.frames_.pop_back(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Machine& m_;
};

Machine::Machine(const Tree& tree, const Limits& limits, std::optional<std::tm> now)
    : tree_(tree), limits_(limits), now_(now), frames_(2) {
  const auto found = std::find(tree.variables.begin(), tree.variables.end(), "loop");
  if (found != tree.variables.end()) loop_variable_ = static_cast<int>(found - tree.variables.begin());
}

void Machine::define(const std::string& name, Value value) {
  const auto found = std::find(tree_.variables.begin(), tree_.variables.end(), name);
  if (found != tree_.variables.end())
    frames_[0].emplace_back(static_cast<int>(found - tree_.variables.begin()), std::move(value));
}

std::string Machine::run() {
  Output out = buffer();
  out_ = &out;
  run_block(tree_.body);
  return out.take();
}

void Machine::too_deep() const {
  throw TemplateFailure(
      concat("expected at most ", limits_.depth, " expressions, blocks and macros within each other, found more"));
}

void Machine::spend(std::size_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps)
    throw TemplateFailure(
        concat("expected a template that ends within ", limits_.steps, " steps, found one that does not"));
}

Value Machine::text(std::string made, bool safe) {
  if (made.size() > limits_.text)
    throw TemplateFailure(concat("expected at most ", limits_.text, " bytes of text, found ", made.size()));
  spend(made.size() / 16);
  return Value(std::move(made), safe);
}

std::string Machine::str(const Value& v) {
  Output out = buffer();
  write_str(v, out);
  spend(out.text().size() / 16);
  return out.take();
}

Value Machine::name(int variable, const std::string& written) const {
  const auto in = [&](const Frame& frame) -> const Value* {
    for (auto it = frame.rbegin(); it != frame.rend(); ++it) {
      if (it->first == variable) return &it->second;
    }
    return nullptr;
  };
  for (std::size_t i = frames_.size(); i > visible_from_; --i) {
    if (const Value* v = in(frames_[i - 1])) return *v;
  }
  for (std::size_t i = 2; i > 0; --i) {
    if (const Value* v = in(frames_[i - 1])) return *v;
  }
  if (has_function(written)) return std::make_shared<const Callable>(Callable{.name = written});
  return Value::undefined(concat("'", written, "' is undefined"));
}

void Machine::set(int variable, Value value) {
  for (auto& [number, old] : frames_.back()) {
    if (number == variable) {
      old = std::move(value);
      return;
    }
  }
  frames_.back().emplace_back(variable, std::move(value));
}

/// The namespace of a target that is an attribute.
std::shared_ptr<Namespace> Machine::space_of(const Target& target) {
  const std::string& of = tree_.variables[static_cast<std::size_t>(target.variables[0])];
  const Value found = name(target.variables[0], of);
  if (const auto* space = found.as<std::shared_ptr<Namespace>>()) return *space;
  throw TemplateFailure(
      concat("expected a namespace to assign ", of, ".", target.attribute, ", found ", type_name(found)));
}

void Machine::assign(const Target& target, Value value) {
  if (!target.attribute.empty()) {
    const auto space = space_of(target);
    if (value.holds_reference())
      throw TemplateFailure(
          "expected a value to keep in a namespace, found a namespace, loop or function: not supported");
    space->attributes[target.attribute] = std::move(value);
    return;
  }
  if (!target.several) return set(target.variables[0], std::move(value));
  Values parts = elements(value);
  if (parts.size() != target.variables.size())
    throw TemplateFailure(concat("expected ", target.variables.size(), " values to assign, found ", parts.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) set(target.variables[i], std::move(parts[i]));
}

Machine::Flow Machine::run_block(const Block& block) {
  const Deeper deeper(*this);
  for (const Statement& s : block) {
    if (const Flow flow = run_statement(s); flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

std::string Machine::captured(const Block& block) {
  Output inner = buffer();
  Output* const outer = std::exchange(out_, &inner);
  const Scope scope(*this);
  run_block(block);
  out_ = outer;
  return inner.take();
}

Machine::Flow Machine::run_statement(const Statement& s) {
  line_ = s.line;
  spend(1);
  switch (s.kind) {
    case StatementKind::Data:
      out_->add(s.text);
      spend(s.text.size() / 16);
      break;
    case StatementKind::Print: {
      const Value v = evaluate(*s.expressions[0]);
      const std::size_t before = out_->text().size();
      write_str(v, *out_);
      spend((out_->text().size() - before) / 16);
      break;
    }
    case StatementKind::If:
      for (std::size_t i = 0; i < s.expressions.size(); ++i) {
        if (truth(evaluate(*s.expressions[i]))) return run_block(s.blocks[i]);
      }
      return run_block(s.blocks.back());
    case StatementKind::For: return run_for(s);
    case StatementKind::Set:
      if (!s.targets[0].attribute.empty()) (void)space_of(s.targets[0]);  // an error in it comes first
      assign(s.targets[0], evaluate(*s.expressions[0]));
      break;
    case StatementKind::SetBlock:
    case StatementKind::FilterBlock: {
      Value made = text(captured(s.blocks[0]));
      // The chain of filters ends in a constant that stands for the text.
      std::vector<const Expression*> chain;
      if (!s.expressions.empty()) {
        for (const Expression* e = s.expressions[0].get(); e->op == Op::Filter; e = e->operands[0].get())
          chain.push_back(e);
      }
      for (auto it = chain.rbegin(); it != chain.rend(); ++it) made = filter((*it)->name, made, arguments_of(**it, 1));
      if (s.kind == StatementKind::SetBlock)
        assign(s.targets[0], std::move(made));
      else
        write_str(made, *out_);
      break;
    }
    case StatementKind::Macro:
      assign(s.targets[0], std::make_shared<const Callable>(Callable{.name = s.macro->name, .macro = s.macro.get()}));
      break;
    case StatementKind::With: {
      Values values;
      for (const ExpressionPtr& e : s.expressions) values.push_back(evaluate(*e));
      const Scope scope(*this);
      for (std::size_t i = 0; i < values.size(); ++i) assign(s.targets[i], std::move(values[i]));
      return run_block(s.blocks[0]);
    }
    case StatementKind::Break: return Flow::Break;
    case StatementKind::Continue: return Flow::Continue;
  }
  return Flow::Next;
}

Machine::Flow Machine::run_for(const Statement& s) {
  Values items = elements(evaluate(*s.expressions[0]));
  if (s.expressions[1] != nullptr) {
    Values kept;
    for (Value& v : items) {
      const Scope scope(*this);
      assign(s.targets[0], v);
      if (truth(evaluate(*s.expressions[1]))) kept.push_back(std::move(v));
    }
    items = std::move(kept);
  }
  const Value all = make_list(std::move(items));
  const std::shared_ptr<const List> list = *all.as<std::shared_ptr<const List>>();
  const std::size_t count = list->items.size();
  // The `else` of a loop runs unless one of its iterations reached the end of the body (also after break: Jinja's
  // rule).
  bool finished = false;
  for (std::size_t i = 0; i < count; ++i) {
    spend(1);
    const Scope scope(*this);
    // A new object each time, in case the template keeps one.
    if (loop_variable_ >= 0) set(loop_variable_, std::shared_ptr<const Loop>(std::make_shared<Loop>(Loop{list, i})));
    assign(s.targets[0], list->items[i]);
    const Flow flow = run_block(s.blocks[0]);
    finished |= flow == Flow::Next;
    if (flow == Flow::Break) break;
  }
  return finished ? Flow::Next : run_block(s.blocks[1]);
}

Arguments Machine::arguments_of(const Expression& e, std::size_t first) {
  Arguments out;
  for (std::size_t i = first; i < e.operands.size(); ++i) out.positional.push_back(evaluate(*e.operands[i]));
  for (const auto& [name, value] : e.named) out.named.emplace_back(name, evaluate(*value));
  return out;
}

Value Machine::call_expression(const Expression& e) {
  const Expression& callee = *e.operands[0];
  if (callee.op == Op::Attribute) {
    const Value self = evaluate(*callee.operands[0]);
    if (has_method(self, callee.name)) {
      const Arguments arguments = arguments_of(e, 1);
      line_ = e.line;
      return call_method(*this, self, callee.name, arguments);
    }
    const Value found = attribute(self, callee.name);
    return call(found, arguments_of(e, 1));
  }
  const Value found = evaluate(callee);
  const Arguments arguments = arguments_of(e, 1);
  line_ = e.line;
  return call(found, arguments);
}

Value Machine::call(const Value& callee, const Arguments& arguments) {
  if (callee.is_undefined()) undefined_error(callee);
  const auto* function = callee.as<std::shared_ptr<const Callable>>();
  if (function == nullptr)
    throw TemplateFailure(concat("expected something that can be called, found ", type_name(callee)));
  if ((*function)->macro != nullptr) return call_macro(*(*function)->macro, arguments);
  if ((*function)->is_method) return call_method(*this, (*function)->self, (*function)->name, arguments);
  return call_function(*this, (*function)->name, arguments);
}

Value Machine::call_macro(const MacroNode& macro, const Arguments& arguments) {
  if (arguments.positional.size() > macro.parameters.size())
    throw TemplateFailure(concat("macro ", macro.name, ": expected at most ", macro.parameters.size(),
                                 " arguments, found ", arguments.positional.size()));
  const Deeper deeper(*this);
  const std::size_t visible = std::exchange(visible_from_, frames_.size());
  struct Restore {
    std::size_t& place;
    std::size_t value;
    ~Restore() { place = value; }
  } restore{visible_from_, visible};
  const Scope scope(*this);
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(macro.parameter_names.begin(), macro.parameter_names.end(), name);
    const auto place = static_cast<std::size_t>(found - macro.parameter_names.begin());
    if (found == macro.parameter_names.end() || place < arguments.positional.size())
      throw TemplateFailure(
          concat("macro ", macro.name, ": expected each of its parameters at most once, found '", name, "'"));
    set(macro.parameters[place], value);
  }
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    if (i < arguments.positional.size()) {
      set(macro.parameters[i], arguments.positional[i]);
      continue;
    }
    const bool given = std::any_of(arguments.named.begin(), arguments.named.end(),
                                   [&](const auto& n) { return n.first == macro.parameter_names[i]; });
    if (given) continue;
    set(macro.parameters[i],
        macro.defaults[i] != nullptr
            ? evaluate(*macro.defaults[i])
            : Value::undefined(concat("parameter '", macro.parameter_names[i], "' was not provided")));
  }
  return text(captured(macro.body));
}

Value Machine::attribute(const Value& of, const std::string& name) {
  if (of.is_undefined()) undefined_error(of);
  if (has_method(of, name))
    return std::make_shared<const Callable>(Callable{.name = name, .self = of, .is_method = true});
  if (const Dict* dict = of.dict()) {
    if (const Value* v = dict->find(std::string_view(name))) return *v;
  } else if (const auto* space = of.as<std::shared_ptr<Namespace>>()) {
    if (const auto found = (*space)->attributes.find(name); found != (*space)->attributes.end()) return found->second;
  } else if (const auto* loop = of.as<std::shared_ptr<const Loop>>()) {
    return loop_attribute(**loop, name);
  }
  return Value::undefined(
      concat("'", type_name(of), of.dict() != nullptr ? " object" : "", "' has no attribute '", name, "'"));
}

Value Machine::item(const Value& of, const Value& key) {
  if (of.is_undefined()) undefined_error(of);
  std::int64_t storage = 0;
  const std::int64_t* index = key.integer(storage);
  if (const List* list = of.list(); list != nullptr && list->has_index() && index != nullptr) {
    const auto n = static_cast<std::int64_t>(list->items.size());
    const std::int64_t at = *index < 0 ? *index + n : *index;
    if (at >= 0 && at < n) return list->items[static_cast<std::size_t>(at)];
  } else if (of.is_string() && index != nullptr) {
    spend(of.text().size() / 16);
    const auto n = static_cast<std::int64_t>(length(of.text()));
    const std::int64_t at = *index < 0 ? *index + n : *index;
    if (at >= 0 && at < n) {
      const char* p = of.text().data();
      for (std::int64_t i = 0; i < at; ++i) p += decode_valid(p).bytes;
      return std::string(p, decode_valid(p).bytes);
    }
  } else if (const Dict* dict = of.dict(); dict != nullptr && key.dict() == nullptr) {
    spend(key.text().size() / 16);
    const bool no_key = key.list() != nullptr && key.list()->kind != Sequence::Tuple;  // then the item is undefined
    if (const Value* v = no_key ? nullptr : dict->find(key)) return *v;
  }
  if (key.is_string()) {
    const Value found = attribute(of, key.text());
    if (!found.is_undefined()) return found;
  }
  Output shown(256);
  if (index != nullptr || (key.is_string() && key.text().size() < 100)) write_repr(key, shown);
  return Value::undefined(concat("'", type_name(of), " object' has no element ", shown.text()));
}

Value Machine::loop_attribute(const Loop& loop, const std::string& name) {
  const auto count = static_cast<std::int64_t>(loop.items->items.size());
  const auto at = static_cast<std::int64_t>(loop.index);
  if (name == "index") return at + 1;
  if (name == "index0") return at;
  if (name == "revindex") return count - at;
  if (name == "revindex0") return count - at - 1;
  if (name == "first") return at == 0;
  if (name == "last") return at + 1 == count;
  if (name == "length") return count;
  if (name == "depth") return std::int64_t{1};  // more only in recursive loops
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem")
    return at > 0 ? loop.items->items[loop.index - 1] : Value::undefined("there is no previous item");
  if (name == "nextitem")
    return at + 1 < count ? loop.items->items[loop.index + 1] : Value::undefined("there is no next item");
  throw TemplateFailure(concat("expected an attribute of loop that this version knows, found '", name, "'"));
}

Values Machine::elements(const Value& of) {
  Values out;
  if (const List* list = of.list()) {
    out = list->items;
  } else if (const Dict* dict = of.dict()) {
    for (const auto& item : dict->items) out.push_back(item.first);
  } else if (of.is_string()) {
    const std::string& text = of.text();
    if (text.size() > kMaxCharacters)
      throw TemplateFailure(concat("expected at most ", kMaxCharacters, " characters to go over, found more"));
    spend(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const unsigned bytes = decode_valid(text.data() + at).bytes;
      out.emplace_back(text.substr(at, bytes));
      at += bytes;
    }
  } else if (!of.is_undefined()) {
    throw TemplateFailure(concat("expected a list, dict or string to go over, found ", type_name(of)));
  }
  spend(out.size());
  return out;
}

}  // namespace mortar::text::jinja
