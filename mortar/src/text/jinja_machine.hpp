// Runs a template.
#pragma once
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja_tree.hpp"

namespace mortar::text::jinja {

/// What ends a template that would run away.
struct Limits {
  std::uint64_t steps = 20'000'000;          ///< operations, and 16 bytes of text each
  std::size_t text = std::size_t{16} << 20;  ///< bytes of the result, or of any one string
  int depth = 400;                           ///< expressions, blocks and macros within each other
};

struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// The arguments of a function by its parameters. Throws for those that it has not.
class Bound {
 public:
  Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> parameters);
  /// Null if not given.
  const Value* get(std::size_t parameter) const { return values_[parameter]; }
  const Value& need(std::size_t parameter) const;
  const std::string& string(std::size_t parameter) const;
  std::int64_t integer(std::size_t parameter, std::int64_t otherwise) const;
  bool flag(std::size_t parameter, bool otherwise) const;

 private:
  std::string_view function_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> values_;
};

class Machine {
 public:
  Machine(const Tree& tree, const Limits& limits, std::optional<std::tm> now);
  /// A variable that the template may use.
  void define(const std::string& name, Value value);
  /// Throws TemplateFailure; line() is then where.
  std::string run();
  int line() const { return line_; }

  // For filters, tests and methods.
  void spend(std::size_t steps);
  Output buffer() const { return Output(limits_.text); }
  /// A string that was made, within the limits.
  Value text(std::string made, bool safe = false);
  std::string str(const Value& v);
  Value attribute(const Value& of, const std::string& name);
  Value item(const Value& of, const Value& key);
  /// The elements of a list, the keys of a dict, the characters of a string.
  Values elements(const Value& of);
  Value call(const Value& callee, const Arguments& arguments);
  Value now_as(const std::string& format);
  Value filter(const std::string& name, const Value& value, const Arguments& arguments);
  bool test(const std::string& name, const Value& value, const Arguments& arguments);
  bool contains(const Value& container, const Value& value);

 private:
  enum class Flow : std::uint8_t { Next, Break, Continue };
  using Frame = std::vector<std::pair<int, Value>>;
  /// One level more for as long as it lives.
  class Deeper {
   public:
    explicit Deeper(Machine& m) : m_(m) {
      if (m_.depth_ == m_.limits_.depth) m_.too_deep();
      ++m_.depth_;
    }
    ~Deeper() { --m_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    Machine& m_;
  };
  class Scope;

  [[noreturn]] void too_deep() const;
  Value evaluate(const Expression& e);
  Value operation(const Expression& e);
  Value arithmetic(const Expression& e);
  Value add(const Value& a, const Value& b);
  Value compare_all(const Expression& e);
  Value slice(const Expression& e);
  Value call_expression(const Expression& e);
  Value call_macro(const MacroNode& macro, const Arguments& arguments);
  Value loop_attribute(const Loop& loop, const std::string& name);
  Arguments arguments_of(const Expression& e, std::size_t first);
  Value name(int variable, const std::string& written) const;

  Flow run_block(const Block& block);
  Flow run_statement(const Statement& s);
  Flow run_for(const Statement& s);
  std::string captured(const Block& block);
  std::shared_ptr<Namespace> space_of(const Target& target);
  void assign(const Target& target, Value value);
  void set(int variable, Value value);

  const Tree& tree_;
  Limits limits_;
  std::optional<std::tm> now_;
  std::vector<Frame> frames_;     ///< the first two: what is given, what the template sets outside of loops
  std::size_t visible_from_ = 2;  ///< of the frames after the first two
  int loop_variable_ = -1;
  std::uint64_t steps_ = 0;
  int depth_ = 0, line_ = 0;
  Output* out_ = nullptr;
};

/// Methods of strings, lists and dicts.
bool has_method(const Value& self, std::string_view name);
Value call_method(Machine& machine, const Value& self, const std::string& name, const Arguments& arguments);
/// range, namespace, dict, raise_exception, strftime_now.
bool has_function(std::string_view name);
Value call_function(Machine& machine, const std::string& name, const Arguments& arguments);
std::string escape_html(std::string_view text);

}  // namespace mortar::text::jinja
