// Blocks and operations of a text, by the rows of formats.def.
#pragma once
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/formats.hpp"
#include "ir/text_parts.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::ir {

/// The problems are as many as are reported.
struct TooManyProblems {};

/// Reads operations into the blocks of one function. After a problem it goes on with the next operation; what uses a
/// result of the one that could not be read is left out without another report.
class OperationParser {
 public:
  OperationParser(TextCursor& cursor, TextParts& parts) : in_(cursor), parts_(parts) {}

  /// What follows the name of a function: arguments, hints, body, location.
  void function(Function& f);
  /// Where each operation of all functions begins, in the order of the text.
  const std::vector<std::pair<const Operation*, std::size_t>>& places() const { return places_; }
  /// Passes what belongs to a statement that began at `start`: to the end of its line and of braces that it opens.
  void recover(std::size_t start);

 private:
  /// A name and the number of values that it stands for: `%for:2`.
  struct Name {
    std::string_view text;
    std::size_t at = 0;
    std::size_t count = 1;
  };
  /// The values that a name stands for: `count` from `first` on; without values where its operation could not be read.
  struct Named {
    std::size_t first = 0, count = 0;
  };
  struct Range {
    std::size_t first = 0, count = 0;
    bool read = false;
  };
  /// An operation whose header is being read.
  struct Draft {
    const OpInfo* info = nullptr;
    std::size_t at = 0;
    std::vector<Name> names;
    std::size_t named = 0;                   ///< results that `names` stand for
    std::vector<Value> values;               ///< operands in the order of the text
    std::vector<Range> groups;               ///< of `values`, for each operand group
    std::vector<std::vector<Type>> results;  ///< for each declared result
    std::vector<NamedAttr> attributes;
    Block* block = nullptr;
    Operation* made = nullptr;  ///< once it is created
  };
  /// Names of a block, which end with it.
  class Scope {
   public:
    explicit Scope(OperationParser& parser);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    OperationParser& parser_;
    std::size_t first_;
  };

  void statement(Block& block);
  void operation(Draft& d);
  void result_names(Draft& d);
  void read_items(Draft& d);
  bool is_there(const Draft& d, std::span<const FormatItem> items, std::size_t i);
  void item(Draft& d, const FormatItem& item);
  void switched(Draft& d, const AttrInfo& attribute);
  void without_row(Draft& d);
  void index_types(Draft& d, int group);
  void operand_types(Draft& d, int group);
  void one_type(Draft& d, int result);
  void inferred(Draft& d, const FormatItem& item);
  void fill_results(Draft& d);
  Operation* create(Draft& d);

  void custom(Draft& d);
  void for_op(Draft& d);
  void loop_op(Draft& d);
  void if_op(Draft& d);
  void tensor_view(Draft& d);
  std::vector<Name> iteration_values(Draft& d, int group);
  std::vector<std::pair<std::int64_t, Value>> view_entries(std::string_view keyword);
  void check_entries(Draft& d, const std::vector<std::pair<std::int64_t, Value>>& entries,
                     std::span<const std::int64_t> of_type, std::size_t at, const char* what);

  void block_arguments(Block& block);
  /// `{ ... }`. A terminator of kind `implicit` without operands is added where there is none (`module`: never).
  void body(Block& block, Op implicit);
  void region(Draft& d);

  Value use();
  void values(Draft& d, int group, bool several);
  void add_value(Draft& d, int group, Value v);
  std::vector<Type> type_list();
  void expect_type(Type expected, const char* of);
  void define(const Name& name, std::span<const Value> values);
  void poison(const Draft& d);

  TextCursor& in_;
  TextParts& parts_;
  std::unordered_map<std::string_view, Named> names_;
  std::vector<std::string_view> defined_;  ///< in the order of the text
  std::vector<Value> pool_;                ///< of `names_`
  std::vector<std::pair<const Operation*, std::size_t>> places_;
  int depth_ = 0;
};

}  // namespace tessera::ir
