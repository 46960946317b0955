// Calls of tools, in the two formats of the Qwen3 models.
#include <algorithm>
#include <deque>

#include "grammar/grammar_state.hpp"
#include "grammar/schema_compiler.hpp"
#include "text/json_writer.hpp"

namespace mortar {
namespace grammar {
namespace {

using Kind = Json::Kind;

constexpr std::string_view kBeginCall = "<tool_call>", kEndCall = "</tool_call>", kEndParameter = "\n</parameter>";

struct Tool {
  std::string name, path;
  Json parameters;
};

Tool read_tool(const Json& value, const std::string& path) {
  const Json* function = value.is(Kind::Object) ? value.find("function") : nullptr;
  Tool tool{.name = {}, .path = function != nullptr ? path + "/function" : path, .parameters = {.kind = Kind::Object}};
  if (function == nullptr) function = &value;
  const Json* name = function->is(Kind::Object) ? function->find("name") : nullptr;
  if (name == nullptr || !name->is(Kind::String) || name->string().empty())
    fail_schema(tool.path, "expected a function with a name");
  tool.name = name->string();
  const Json* parameters = function->find("parameters");
  tool.path += "/parameters";
  if (parameters == nullptr || parameters->is(Kind::Null))
    tool.parameters.fields.push_back({"properties", Json{.kind = Kind::Object}});
  else
    tool.parameters = *parameters;
  return tool;
}

std::vector<Tool> read_tools(std::string_view text, const std::string& only) {
  const Json all = read_schema(text, "tools");
  if (!all.is(Kind::Array)) throw RequestError("tools: expected an array");
  std::vector<Tool> tools;
  for (std::size_t i = 0; i < all.items.size(); ++i) {
    Tool tool = read_tool(all.items[i], "/" + std::to_string(i));
    if (only.empty() || tool.name == only) tools.push_back(std::move(tool));
  }
  if (tools.empty())
    throw RequestError(only.empty() ? "tools: expected at least one" : "tools: there is no function " + only);
  return tools;
}

/// Arguments are an object.
Json object_schema(SchemaCompiler& compiler, const Tool& tool) {
  check_keywords(tool.parameters, tool.path);
  Json object{.kind = Kind::Object};
  object.fields.push_back({"type", Json{.kind = Kind::String, .source = "\"object\""}});
  Json joined = compiler.document().merge(tool.parameters, object, tool.path);
  if (joined.is(Kind::False)) fail_schema(tool.path, "expected a schema of objects");
  return joined;
}

class CallCompiler {
 public:
  CallCompiler(Program& program, Budget& budget) : program_(program), pieces_(program, budget) {}

  /// The inside of a call of one of the tools, up to its end.
  Pc call(const std::vector<Tool>& tools, CallFormat format, Pc next) {
    const Pc end = pieces_.expression("\n?", program_.token(kEndCall, next));
    std::vector<Pc> targets;
    for (const Tool& tool : tools) {
      compilers_.emplace_back(pieces_, tool.parameters, tool.path);
      targets.push_back(format == CallFormat::Json ? json(tool, end) : xml(tool, end));
      compilers_.back().finish_rules();
    }
    Pc begin = program_.split(targets);
    if (format == CallFormat::Json)
      begin = program_.text("{", pieces_.space(program_.text("\"name\":", pieces_.space_after_colon(begin))));
    return pieces_.expression("\n?", begin);
  }

  /// One call or several.
  Pc calls(const std::vector<Tool>& tools, const ToolGrammarOptions& options, Pc next) {
    const Pc more = program_.forward();
    const Pc one =
        program_.token(kBeginCall, call(tools, options.format, options.parallel ? program_.split({next, more}) : next));
    program_.set_target(more, pieces_.expression("\n?", one));
    return one;
  }

  const std::vector<std::string>& rule_names() const { return pieces_.rule_names(); }

 private:
  Pc json(const Tool& tool, Pc end) {
    SchemaCompiler& compiler = compilers_.back();
    schemas_.push_back(object_schema(compiler, tool));
    const Pc after = pieces_.space(program_.text("}", end));
    const Pc arguments = compiler.value(schemas_.back(), tool.path, after);
    const Pc key = program_.text("\"arguments\":", pieces_.space_after_colon(arguments));
    return program_.text(text::json_string(tool.name) + ',', pieces_.space(key));
  }

  Pc xml(const Tool& tool, Pc end) {
    if (tool.name.find_first_of(">\n") != std::string::npos)
      fail_schema(tool.path, "the function's name cannot be written in this format of calls");
    SchemaCompiler& compiler = compilers_.back();
    schemas_.push_back(object_schema(compiler, tool));
    const Json& schema = schemas_.back();
    for (const char* keyword :
         {"anyOf", "oneOf", "enum", "patternProperties", "propertyNames", "minProperties", "maxProperties"}) {
      if (schema.find(keyword) != nullptr)
        fail_schema(path_of(tool.path, keyword), "the keyword is not supported at the top of XML calls");
    }
    Pc after = program_.text("</function>", end);
    const auto fields = compiler.properties(schema, tool.path);
    if (fields.empty() && schema.find("properties") == nullptr) after = any_parameters(schema, tool.path, after);
    for (std::size_t i = fields.size(); i-- > 0;) {
      const auto& field = fields[i];
      if (field.name.find_first_of(">\n") != std::string::npos)
        fail_schema(tool.path, "a property's name cannot be written in this format of calls");
      const Pc content = parameter(*field.schema, path_of(path_of(tool.path, "properties"), field.name), after);
      const Pc own = program_.text("<parameter=" + field.name + ">\n", content);
      after = field.required ? own : program_.split({own, after});
    }
    return program_.text("<function=" + tool.name + ">\n", after);
  }

  /// Parameters of a function that names none.
  Pc any_parameters(const Json& schema, const std::string& path, Pc next) {
    const Json* more = schema.find("additionalProperties");
    if (more != nullptr && more->is(Kind::False)) return next;
    static const Json any{.kind = Kind::True};
    const Pc loop = program_.forward();
    const Pc content = parameter(more != nullptr ? *more : any, path_of(path, "additionalProperties"), loop);
    const Pc own = program_.text("<parameter=", pieces_.expression("[A-Za-z0-9_.-]+", program_.text(">\n", content)));
    program_.set_target(loop, program_.split({next, own}));
    return loop;
  }

  /// The value of a parameter and the text that ends it.
  Pc parameter(const Json& schema, const std::string& path, Pc next) {
    const Pc line = program_.text("\n", next);
    return content(schema, path, line, program_.text(kEndParameter, line), 0);
  }

  /// Strings are written as they are, all else as JSON. `any_end` follows the text that ends a parameter, `end` begins
  /// with it.
  Pc content(const Json& schema, const std::string& path, Pc any_end, Pc end, int depth) {
    SchemaCompiler& compiler = compilers_.back();
    check_keywords(schema, path);
    const TypeSet types = compiler.document().types_of(schema, path);
    if (schema.is(Kind::True) || (types == kAllTypes && !restricts(schema))) return any_text(any_end);
    if ((types & kString) == 0) return compiler.value(schema, path, end);
    if (depth > 50) fail_schema(path, "the type of a parameter refers to itself");
    if (schema.find("allOf") != nullptr || (schema.find("$ref") != nullptr && restricts(schema, "$ref"))) {
      schemas_.push_back(compiler.document().merge(schema, string_or_other(types), path));
      return content(schemas_.back(), path, any_end, end, depth + 1);
    }
    if (const Json* reference = schema.find("$ref"); reference != nullptr) {
      const SchemaDocument::Target target = compiler.document().resolve(*reference, path);
      return content(*target.schema, target.path, any_end, end, depth + 1);
    }
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (schema.find(keyword) != nullptr) return branches(schema, keyword, path, any_end, end, depth);
    }
    Json storage;
    if (const Json* values = constants_of(schema, path, storage); values != nullptr) {
      std::vector<Pc> targets;
      std::vector<std::string> texts;
      Json others{.kind = Kind::Array};
      for (const Json& value : values->items) {
        if (!value.is(Kind::String))
          others.items.push_back(value);
        else if (std::string text = value.string(); text.find(kEndParameter) == std::string::npos)
          texts.push_back(std::move(text));
      }
      if (!texts.empty()) targets.push_back(program_.names(std::move(texts), end));
      if (!others.items.empty()) targets.push_back(compiler.value(enum_of(std::move(others)), path, end));
      if (targets.empty()) fail_schema(path, "no value is accepted");
      return program_.split(targets);
    }
    std::vector<Pc> targets = {string(schema, path, any_end, end)};
    if (types != kString) targets.push_back(compiler.value(of_types(schema, types & ~kString), path, end));
    return program_.split(targets);
  }

  Pc branches(const Json& schema, const char* keyword, const std::string& path, Pc any_end, Pc end, int depth) {
    const Json& all = *schema.find(keyword);
    const Json rest = without(schema, keyword);
    std::vector<Pc> targets;
    for (std::size_t i = 0; i < all.items.size(); ++i) {
      const std::string at = path_of(path_of(path, keyword), std::to_string(i));
      check_keywords(all.items[i], at);
      schemas_.push_back(compilers_.back().document().merge(rest, all.items[i], at));
      if (!schemas_.back().is(Kind::False)) targets.push_back(content(schemas_.back(), at, any_end, end, depth + 1));
    }
    if (targets.empty()) fail_schema(path, "no value is accepted");
    return program_.split(targets);
  }

  static Json enum_of(Json values) {
    Json out{.kind = Kind::Object};
    out.fields.push_back({"enum", std::move(values)});
    return out;
  }
  static Json of_types(const Json& schema, TypeSet types) {
    static constexpr const char* names[] = {"\"null\"",   "\"boolean\"", "\"integer\"", "\"number\"",
                                            "\"string\"", "\"array\"",   "\"object\""};
    Json list{.kind = Kind::Array};
    for (std::size_t i = 0; i < std::size(names); ++i) {
      if ((types >> i & 1) != 0) list.items.push_back({.kind = Kind::String, .source = names[i]});
    }
    Json out = without(without(schema, "type"), "nullable");
    out.fields.push_back({"type", std::move(list)});
    return out;
  }
  static Json string_or_other(TypeSet types) { return of_types(Json{.kind = Kind::Object}, types); }

  Pc any_text(Pc any_end) {
    const std::uint32_t dfa = program_.shared_dfa("parameter", [] { return text_until(kEndParameter); });
    if (!any_text_rule_.has_value()) {  // one rule, so that masks within it are those of all parameters
      any_text_rule_ = pieces_.new_rule("parameter");
      program_.set_rule(*any_text_rule_, program_.dfa(dfa, pieces_.return_pc()));
    }
    return program_.call(*any_text_rule_, any_end);
  }

  Pc string(const Json& schema, const std::string& path, Pc any_end, Pc end) {
    SchemaCompiler::Strings strings = compilers_.back().strings(schema, path, Spelling::Raw);
    const bool is_bounded = strings.lengths.min() > 0 || strings.lengths.max() != LengthTable::kUnbounded;
    if (strings.dfa.has_value()) return program_.counted(*strings.dfa, std::move(strings.lengths), end);
    if (!is_bounded) return any_text(any_end);
    const std::uint32_t dfa = program_.shared_dfa("bounded parameter", [] { return text_without(kEndParameter); });
    return program_.counted(dfa, std::move(strings.lengths), end);
  }

  Program& program_;
  JsonPieces pieces_;
  std::deque<SchemaCompiler> compilers_;
  std::deque<Json> schemas_;
  std::optional<std::uint32_t> any_text_rule_;
};

}  // namespace
}  // namespace grammar

Grammar Grammar::from_tools(std::string_view tools, const ToolGrammarOptions& options, const GrammarLimits& limits) {
  grammar::require_source_size(tools.size(), limits);
  const auto all = grammar::read_tools(tools, options.name);
  grammar::Budget budget(limits.steps);
  auto state = std::make_shared<State>(budget);
  state->is_call = options.choice == CallChoice::Auto;
  state->repeats = options.parallel;
  grammar::Program& program = state->program;
  grammar::CallCompiler compiler(program, budget);
  const grammar::Pc end = program.add({grammar::Op::Finish});
  const grammar::Pc root = state->is_call ? compiler.call(all, options.format, end) : compiler.calls(all, options, end);
  program.finish(root, compiler.rule_names());
  return Grammar(std::move(state));
}

}  // namespace mortar
