// Builds modules from the line notation of golden/cases.txt, for the tests of bytecode, text and verifier. The notation
// names operand groups and attributes, so that the op table itself is under test.
//
//   hints <arch> <key>=<i32>...                            of the entry
//   global <name> <type> <data> <alignment> [private] [constant]
//   loc <file> <line> <column>                             of what follows; `-` for unknown
//   arg %x <type>                                          argument of the entry
//   %r %t = <mnemonic> <group>=%a,%b ... -> <type> ... ; <attribute>[=<value>] ...
//   { %i <type> %v <type>      begins the next region of the operation before, with its arguments; `}` ends it
//
// Types:
//   tile:f32:16x8   tile:ptr.f32:   token   view:<element>:<shape>:<strides>
//   part:<tile>:<dim_map>:<padding>:<view>                 (- for none, here and below)
//   strided:<tile>:<strides>:<dim_map>:<padding>:<view>
//   gather:<tile>:<sparse dim>:<padding>:<view>
//
// Values:
//   splat:<hex>, dense:<hex> (bytes in memory)   [f32:<hex bits>,i32:<n>]   divby:<d>[:<every>:<along>]
//   bounded:<lo>:<hi>   same:<n>...   {<arch>:<key>=<v>:...,<arch>:...}   [1,0]   [true,false]
//
// A `return` is added where the entry ends without a terminator (not in raw programs).
#pragma once
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "tessera/ir/ir.hpp"

namespace tessera::ir::testing {

inline std::vector<std::string> split(const std::string& text, char separator, std::size_t limit = ~std::size_t{0}) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator && parts.size() < limit)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// Words separated by blanks; blanks inside double quotes stay.
inline std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ' ' && !quoted) {
      if (!word.empty()) words.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

template <class I>
std::vector<I> read_dims(const std::string& text) {
  std::vector<I> dims;
  if (text.empty() || text == "-") return dims;
  for (const std::string& d : split(text, 'x')) dims.push_back(static_cast<I>(d == "?" ? kDynamic : std::stoll(d)));
  return dims;
}

inline Elem read_elem(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Elem::F8E5M3FNU); ++i)
    if (name == info(static_cast<Elem>(i)).text) return static_cast<Elem>(i);
  throw std::runtime_error("no element " + name);
}

inline std::optional<PaddingValue> read_padding(const std::string& name) {
  if (name == "-") return std::nullopt;
  for (int i = 0; i <= 4; ++i)
    if (name == text(static_cast<PaddingValue>(i))) return static_cast<PaddingValue>(i);
  throw std::runtime_error("no padding " + name);
}

inline Type read_type(const std::string& text) {
  if (text == "token") return Type::token();
  std::vector<std::string> p = split(text, ':');
  if (p[0] == "tile") {
    const bool pointer = p[1].starts_with("ptr.");
    Type element = Type::element(read_elem(pointer ? p[1].substr(4) : p[1]));
    return Type::tile(pointer ? Type::pointer(element) : element, read_dims<std::int64_t>(p.at(2)));
  }
  if (p[0] == "view")
    return Type::tensor_view(read_elem(p[1]), read_dims<std::int64_t>(p[2]), read_dims<std::int64_t>(p.at(3)));
  if (p[0] == "part") {
    p = split(text, ':', 5);
    return Type::partition_view(read_type(p.at(4)), read_dims<std::int32_t>(p[1]), read_dims<std::int32_t>(p[2]),
                                read_padding(p[3]));
  }
  if (p[0] == "strided") {
    p = split(text, ':', 6);
    return Type::strided_view(read_type(p.at(5)), read_dims<std::int32_t>(p[1]), read_dims<std::int32_t>(p[2]),
                              read_dims<std::int32_t>(p[3]), read_padding(p[4]));
  }
  if (p[0] == "gather") {
    p = split(text, ':', 5);
    return Type::gather_scatter_view(read_type(p.at(4)), read_dims<std::int32_t>(p[1]), std::stoi(p[2]),
                                     read_padding(p[3]));
  }
  throw std::runtime_error("no type " + text);
}

inline DenseAttr read_dense(const std::string& text, Type type) {
  DenseAttr data{type, {}, text.starts_with("splat:")};
  for (std::size_t i = 6; i + 1 < text.size(); i += 2)
    data.bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return data;
}

inline Attribute read_number(const std::string& text) {
  auto p = split(text, ':');
  Elem e = read_elem(p[0]);
  if (info(e).is_float) return FloatAttr{e, std::stoull(p.at(1), nullptr, 16)};
  return IntAttr{e, std::stoll(p.at(1))};
}

inline std::vector<std::string> read_list(const std::string& text) {
  if (text.size() <= 2) return {};
  return split(text.substr(1, text.size() - 2), ',');
}

inline Attribute read_predicate(const std::string& text) {
  auto p = split(text, ':');
  auto bound = [&](std::size_t i) {
    return i >= p.size() || p[i] == "?" ? std::optional<std::int64_t>() : std::stoll(p[i]);
  };
  if (p[0] == "divby") return DivByAttr{std::stoull(p[1]), bound(2), bound(3)};
  if (p[0] == "bounded") return BoundedAttr{bound(1), bound(2)};
  if (p[0] != "same") return std::string(text);  // for rejects
  SameElementsAttr same;
  for (std::size_t i = 1; i < p.size(); ++i) same.values.push_back(std::stoll(p[i]));
  return same;
}

inline Attribute read_hint(const std::string& value) {
  if (value == "true" || value == "false") return value == "true";
  return IntAttr{Elem::I32, std::stoll(value)};
}

inline DictAttr read_hint_items(const std::vector<std::string>& items, std::size_t first) {
  DictAttr inner;
  for (std::size_t i = first; i < items.size(); ++i) {
    auto pair = split(items[i], '=', 2);
    inner.entries.emplace_back(pair[0], read_hint(pair.at(1)));
  }
  return inner;
}

inline std::string unquoted(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') continue;
    if (text[i] == '\\' && text[i + 1] == 'n') {
      out += '\n';
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

inline Attribute read_attribute(AttrKind kind, const std::string& text, const std::vector<Type>& results) {
  switch (kind) {
    case AttrKind::Unit: return UnitAttr{};
    case AttrKind::Bool: return text == "true";
    case AttrKind::I32: return IntAttr{Elem::I32, std::stoll(text)};
    case AttrKind::I64: return IntAttr{Elem::I64, std::stoll(text)};
    case AttrKind::String:
    case AttrKind::Symbol: return unquoted(text);
    case AttrKind::Dense: return read_dense(text, results.at(0));
    case AttrKind::Tagged: return read_predicate(text);
    case AttrKind::Dict: {
      DictAttr dict;
      for (const std::string& entry : read_list(text)) {
        auto items = split(entry, ':');
        dict.entries.emplace_back(items[0], read_hint_items(items, 1));
      }
      return dict;
    }
    case AttrKind::TaggedArray: {
      ArrayAttr array;
      for (const std::string& item : read_list(text)) array.items.push_back(read_number(item));
      return array;
    }
    case AttrKind::I32Array: {
      I32ArrayAttr array;
      for (const std::string& item : read_list(text)) array.values.push_back(std::stoi(item));
      return array;
    }
    case AttrKind::BoolArray: {
      BoolArrayAttr array;
      for (const std::string& item : read_list(text)) array.values.push_back(item == "true");
      return array;
    }
    default: {
      int value = enum_value(kind, text);
      return EnumAttr{static_cast<std::uint8_t>(value < 0 ? std::stoi(text) : value)};
    }
  }
}

class CaseReader {
 public:
  /// `raw`: nothing is added at the end of the entry.
  static std::unique_ptr<Module> read(const std::vector<std::string>& lines, bool raw = false) {
    CaseReader reader;
    reader.module_ = std::make_unique<Module>();
    reader.function_ = &reader.module_->add_function("kernel");
    reader.blocks_.push_back(&reader.function_->body());
    for (const std::string& line : lines) reader.line(line);
    if (!raw && !reader.function_->body().terminator()) {
      Builder b(reader.function_->body());
      b.loc = reader.loc_;
      b.create(Op::Return, {}, {});
    }
    return std::move(reader.module_);
  }

 private:
  void line(const std::string& text) {
    std::vector<std::string> w = words_of(text);
    if (w.empty() || w[0][0] == '#') return;
    if (w[0] == "hints") {
      function_->hints.entries.emplace_back(w.at(1), read_hint_items(w, 2));
    } else if (w[0] == "global") {
      Type type = read_type(w.at(2));
      Global g{w[1], read_dense(w.at(3), type), std::stoll(w.at(4)), false, false};
      for (std::size_t i = 5; i < w.size(); ++i) (w[i] == "private" ? g.is_private : g.constant) = true;
      module_->globals.push_back(g);
    } else if (w[0] == "loc") {
      loc_ = w[1] == "-" ? SourceLocation{} : SourceLocation{keep(w[1]), "", number(w[2]), number(w.at(3))};
      if (function_->body().num_args() == 0 && function_->body().empty()) function_->loc = loc_;
    } else if (w[0] == "arg") {
      values_[w.at(1)] = function_->body().add_arg(read_type(w.at(2)));
    } else if (w[0] == "{") {
      Block& block = blocks_.back()->back()->add_region();
      for (std::size_t i = 1; i + 1 < w.size(); i += 2) values_[w[i]] = block.add_arg(read_type(w[i + 1]));
      blocks_.push_back(&block);
    } else if (w[0] == "}") {
      blocks_.pop_back();
      Operation* op = blocks_.back()->back();
      for (std::size_t i = 0; i < op->num_results(); ++i) values_[result_names_[op].at(i)] = op->result(i);
    } else {
      operation(w);
    }
  }

  void operation(const std::vector<std::string>& w) {
    std::size_t i = 0;
    std::vector<std::string> names;
    while (w[i][0] == '%') names.push_back(w[i++]);
    if (w[i] == "=") ++i;
    const OpInfo* info = find_op(w[i++]);
    if (!info) throw std::runtime_error("no operation " + w[i - 1]);
    std::map<std::string, std::vector<Value>> groups;
    for (; i < w.size() && w[i] != "->" && w[i] != ";"; ++i) {
      auto pair = split(w[i], '=', 2);
      if (info->operand_group(pair[0]) < 0) throw std::runtime_error("no group " + w[i]);
      for (const std::string& name : split(pair.at(1), ',')) groups[pair[0]].push_back(values_.at(name));
    }
    std::vector<Type> results;
    if (i < w.size() && w[i] == "->")
      for (++i; i < w.size() && w[i] != ";"; ++i) results.push_back(read_type(w[i]));
    if (info->op == Op::PrintTko && results.empty()) results.push_back(Type::token());
    std::vector<Value> operands;
    std::vector<std::uint32_t> sizes;
    for (const GroupInfo& g : info->operands) {
      const auto& values = groups[std::string(g.name)];
      operands.insert(operands.end(), values.begin(), values.end());
      sizes.push_back(static_cast<std::uint32_t>(values.size()));
    }
    Builder b(*blocks_.back());
    b.loc = loc_;
    Operation* op = b.create_grouped(info->op, operands, sizes, results);
    for (++i; i < w.size(); ++i) attribute(*op, w[i], results);
    names.resize(results.size(), "%unnamed");
    result_names_[op] = names;
    for (std::size_t r = 0; r < results.size(); ++r) values_[names[r]] = op->result(r);
  }

  static void attribute(Operation& op, const std::string& word, const std::vector<Type>& results) {
    auto pair = split(word, '=', 2);
    for (const AttrInfo& a : op.info().attributes)
      if (pair[0] == text(a.name))
        return op.set_attr(a.name, read_attribute(a.kind, pair.size() > 1 ? pair[1] : "", results));
    throw std::runtime_error("no attribute " + word);
  }

  static std::uint32_t number(const std::string& text) { return static_cast<std::uint32_t>(std::stoul(text)); }
  /// Locations hold pointers: files live as long as the test program.
  static const char* keep(const std::string& file) {
    static std::map<std::string, std::string> files;
    return files.emplace(file, file).first->second.c_str();
  }

  std::unique_ptr<Module> module_;
  Function* function_ = nullptr;
  SourceLocation loc_;
  std::vector<Block*> blocks_;
  std::map<std::string, Value> values_;
  std::map<Operation*, std::vector<std::string>> result_names_;
};

/// A program given as one string of lines.
inline std::unique_ptr<Module> read_program(const std::string& text, bool raw = false) {
  return CaseReader::read(split(text, '\n'), raw);
}

/// The programs of cases.txt, in order.
inline std::vector<std::pair<std::string, std::vector<std::string>>> read_cases(std::istream& in) {
  std::vector<std::pair<std::string, std::vector<std::string>>> cases;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.starts_with("case "))
      cases.emplace_back(line.substr(5), std::vector<std::string>{});
    else
      cases.back().second.push_back(line);
  }
  return cases;
}

}  // namespace tessera::ir::testing
