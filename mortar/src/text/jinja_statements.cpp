// The statements of templates.
#include "tessera/base/format.hpp"
#include "text/jinja_parser.hpp"

namespace mortar::text::jinja {
namespace {

class Parser : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Tree run() {
    Tree tree;
    tree.body = block({});
    tree.variables = std::move(variables_);
    return tree;
  }

 private:
  /// Statements up to a block tag that begins with one of the names, which is not taken; the end of the template if
  /// there are none.
  Block block(std::initializer_list<std::string_view> ends) {
    deeper();
    Block out;
    for (;;) {
      const int line = now().line;
      if (is(TokenKind::Error)) fail("");
      if (is(TokenKind::End)) {
        if (ends.size() != 0) wrong(tessera::concat("{% ", *ends.begin(), " %}"));
        break;
      }
      const Token token = take();
      if (token.kind == TokenKind::Data) {
        out.push_back({.kind = StatementKind::Data, .line = line, .text = token.text});
      } else if (token.kind == TokenKind::VariableBegin) {
        Statement& print = add(out, StatementKind::Print, line);
        print.expressions.push_back(tuple(true));
        if (!is(TokenKind::VariableEnd)) wrong("}}");
        take();
      } else {
        bool ended = false;
        for (std::string_view end : ends) ended |= is_name(end);
        if (ended) break;
        statement(out);
      }
    }
    shallower();
    return out;
  }

  static Statement& add(Block& out, StatementKind kind, int line) {
    out.push_back({.kind = kind, .line = line});
    return out.back();
  }

  void end_of_tag() {
    if (!is(TokenKind::BlockEnd)) wrong("%}");
    take();
  }
  /// Of a statement with a body: as in Python a colon may stand there.
  void begin_body() {
    skip_op(":");
    end_of_tag();
  }
  void end_tag(std::string_view name) {
    if (!skip_name(name)) wrong(name);
    end_of_tag();
  }

  void statement(Block& out) {
    const int line = now().line;
    const std::string name = expect_any_name();
    if (name == "if") return if_statement(add(out, StatementKind::If, line));
    if (name == "for") return for_statement(add(out, StatementKind::For, line));
    if (name == "set") return set_statement(out, line);
    if (name == "macro") return macro_statement(add(out, StatementKind::Macro, line));
    if (name == "with") return with_statement(add(out, StatementKind::With, line));
    if (name == "filter") return filter_statement(add(out, StatementKind::FilterBlock, line));
    if (name == "generation") return generation(add(out, StatementKind::With, line));
    if ((name == "break" || name == "continue") && loops_ > 0) {
      add(out, name == "break" ? StatementKind::Break : StatementKind::Continue, line);
      return end_of_tag();
    }
    throw SyntaxError{tessera::concat("expected a statement that this version knows, found '", name, "'",
                                      name == "break" || name == "continue" ? " outside a loop" : ""),
                      line};
  }

  void if_statement(Statement& out) {
    for (;;) {
      out.expressions.push_back(tuple(false));
      begin_body();
      out.blocks.push_back(block({"endif", "elif", "else"}));
      if (skip_name("elif")) continue;
      if (skip_name("else")) {
        begin_body();
        out.blocks.push_back(block({"endif"}));
      } else {
        out.blocks.emplace_back();
      }
      return end_tag("endif");
    }
  }

  void for_statement(Statement& out) {
    out.targets.push_back(target(false));
    if (!skip_name("in")) wrong("'in'");
    out.expressions.push_back(tuple(false));
    out.expressions.push_back(skip_name("if") ? conditional() : nullptr);
    if (is_name("recursive")) wrong("%} (recursive loops are not supported)");
    begin_body();
    ++loops_;
    out.blocks.push_back(block({"endfor", "else"}));
    --loops_;
    if (skip_name("else")) {
      begin_body();
      out.blocks.push_back(block({"endfor"}));
    } else {
      out.blocks.emplace_back();
    }
    end_tag("endfor");
  }

  /// Names with commas between, in brackets (then a comma may come last) or not; where `attributes`, also
  /// namespace.attribute.
  Target target(bool attributes) {
    Target out;
    const bool bracket = skip_op("(");
    const auto one = [&] {
      const std::string name = expect_any_name();
      for (std::string_view reserved : {"true", "false", "none", "True", "False", "None", "loop"}) {
        if (name == reserved) fail(tessera::concat("expected a name that can be assigned, found '", name, "'"));
      }
      out.variables.push_back(variable(name));
    };
    one();
    if (attributes && !bracket && skip_op(".")) {
      out.attribute = expect_any_name();
      return out;
    }
    while (skip_op(",")) {
      out.several = true;
      if (bracket ? is_op(")") : is(TokenKind::BlockEnd)) break;  // a tuple all the same
      one();
    }
    if (bracket) expect_op(")");
    return out;
  }

  void set_statement(Block& out, int line) {
    Target to = target(true);
    Statement& set = add(out, StatementKind::Set, line);
    set.targets.push_back(std::move(to));
    if (skip_op("=")) {
      set.expressions.push_back(tuple(true));
      return end_of_tag();
    }
    set.kind = StatementKind::SetBlock;
    if (is_op("|")) set.expressions.push_back(filters(node(Op::Constant, line)));
    begin_body();
    set.blocks.push_back(block({"endset"}));
    end_tag("endset");
  }

  void macro_statement(Statement& out) {
    if (loops_ > 0 || inner_ > 0)
      fail("expected macros outside of loops and of other macros: those within are not supported");
    out.macro = std::make_unique<MacroNode>();
    out.macro->name = expect_any_name();
    out.targets.push_back({{variable(out.macro->name)}, false, {}});
    expect_op("(");
    while (!is_op(")")) {
      out.macro->parameter_names.push_back(expect_any_name());
      out.macro->parameters.push_back(variable(out.macro->parameter_names.back()));
      out.macro->defaults.push_back(skip_op("=") ? conditional() : nullptr);
      if (!skip_op(",")) break;
    }
    expect_op(")");
    begin_body();
    ++inner_;
    out.macro->body = block({"endmacro"});
    --inner_;
    skip_name("endmacro");
    skip_name(out.macro->name);
    end_of_tag();
  }

  void with_statement(Statement& out) {
    while (!is(TokenKind::BlockEnd)) {
      out.targets.push_back(target(false));
      expect_op("=");
      out.expressions.push_back(conditional());
      if (!skip_op(",")) break;
    }
    begin_body();
    ++inner_;
    out.blocks.push_back(block({"endwith"}));
    --inner_;
    end_tag("endwith");
  }

  /// What an assistant says, for training: printed like anything else.
  void generation(Statement& out) {
    begin_body();
    out.blocks.push_back(block({"endgeneration"}));
    end_tag("endgeneration");
  }

  void filter_statement(Statement& out) {
    const int line = now().line;
    std::string name = expect_any_name();
    if (!has_filter(name))
      throw SyntaxError{tessera::concat("expected a filter that this version knows, found '", name, "'"), line};
    ExpressionPtr filter = make(Op::Filter, line, node(Op::Constant, line));
    filter->name = std::move(name);
    if (is_op("(")) arguments(*filter);
    out.expressions.push_back(filters(std::move(filter)));
    begin_body();
    out.blocks.push_back(block({"endfilter"}));
    end_tag("endfilter");
  }

  int loops_ = 0, inner_ = 0;
};

}  // namespace

Tree parse_template(std::string_view source) { return Parser(tokenize_template(source)).run(); }

}  // namespace mortar::text::jinja
