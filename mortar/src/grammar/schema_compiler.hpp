// JSON schemas to programs.
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "grammar/program.hpp"
#include "grammar/schema_document.hpp"
#include "mortar/grammar.hpp"

namespace mortar::grammar {

/// Throws RequestError if the text that describes a grammar is too long.
void require_source_size(std::size_t bytes, const GrammarLimits& limits);

/// Pieces of JSON that every grammar may need.
class JsonPieces {
 public:
  JsonPieces(Program& program, Budget& budget) : program_(program), budget_(budget) {}

  Pc any_value(Pc next) { return program_.call(any_rule(), next); }
  Pc any_object(Pc next);
  /// Nothing, a space, or a newline and its indentation. Bounded, so that an answer cannot go on with white space.
  Pc space(Pc next);
  Pc space_after_colon(Pc next);
  Pc number(Pc next);
  /// A match of an expression, kept once per program.
  Pc expression(const std::string& text, Pc next);
  /// A JSON string of any text.
  Pc string(Pc next) { return program_.text("\"", program_.body(kFreeBody, {0, LengthTable::kUnbounded}, next)); }
  /// Every rule ends here.
  Pc return_pc();
  std::uint32_t new_rule(std::string name);

  Program& program() { return program_; }
  Budget& budget() { return budget_; }
  const std::vector<std::string>& rule_names() const { return rule_names_; }

 private:
  std::uint32_t any_rule();

  Program& program_;
  Budget& budget_;
  std::vector<std::string> rule_names_;
  std::optional<std::uint32_t> any_rule_;
  std::optional<Pc> return_;
};

class SchemaCompiler {
 public:
  /// `root`, which `path` names in messages, must outlive the compiler.
  SchemaCompiler(JsonPieces& pieces, const Json& root, const std::string& path)
      : pieces_(pieces),
        program_(pieces.program()),
        budget_(pieces.budget()),
        root_(root),
        path_(path),
        document_(root, path, pieces.budget()) {}

  /// Reads a value that the whole schema accepts, and goes on at `next`.
  Pc root(Pc next);
  /// Reads a value that a schema within it accepts. finish_rules() must follow.
  Pc value(const Json& schema, const std::string& path, Pc next);
  void finish_rules();
  SchemaDocument& document() { return document_; }

  /// The strings that a schema of type string accepts.
  struct Strings {
    std::optional<std::uint32_t> dfa;  ///< number in the program; absent: any string
    LengthTable lengths;
  };
  /// Strings with a pattern or format that are spelled Raw have no line ends.
  Strings strings(const Json& schema, const std::string& path, Spelling spelling);

  struct Property {
    std::string name;
    const Json* schema;
    bool required;
  };
  /// What `properties` and `required` name. The schemas are parts of `schema`.
  std::vector<Property> properties(const Json& schema, const std::string& path);

 private:
  using Kind = Json::Kind;

  Pc reference(const Json& schema, const std::string& path, Pc next);
  Pc alternatives(const Json& schema, const char* keyword, const std::string& path, Pc next);
  void require_disjoint(const Json& branches, const std::string& path);
  Pc constants(const Json& schema, const Json& values, const std::string& path, Pc next);
  Pc constant(const Json& value, Pc next);
  Pc of_type(TypeSet type, const Json& schema, const std::string& path, Pc next);
  Pc string(const Json& schema, const std::string& path, Pc next);
  Pc number(const Json& schema, const std::string& path, bool integer, Pc next);
  Pc array(const Json& schema, const std::string& path, Pc next);
  Pc items(const Json& schema, const std::string& path, Bounds bounds, Pc end, Pc* first);
  Pc object(const Json& schema, const std::string& path, Pc next);
  Pc map(const Json& schema, const std::string& path, Pc end);

  Pc members(const std::vector<Property>& fields, const Json* more, const std::vector<std::string>& taken,
             const std::string& path, Pc end);
  Pc counted(Bounds bounds, Pc end, std::uint32_t rule, Pc* first);
  Pc comma(Pc next) { return program_.text(",", pieces_.space(next)); }
  Bounds bounds_of(const Json& schema, const char* min, const char* max, const std::string& path);

  JsonPieces& pieces_;
  Program& program_;
  Budget& budget_;
  const Json& root_;
  std::string path_;
  SchemaDocument document_;
  std::unordered_map<const Json*, std::uint32_t> rules_;
  struct Pending {
    std::uint32_t rule;
    SchemaDocument::Target target;
  };
  std::vector<Pending> pending_;
};

}  // namespace mortar::grammar
