// Reads the rows of formats.def.
#include "ir/formats.hpp"

#include <array>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::ir {

namespace {

using Kind = FormatItem::Kind;

[[noreturn]] void invalid(const OpInfo& info, std::string_view word) {
  throw InternalError(concat("formats.def: the row of ", info.mnemonic, " has the invalid token ", word));
}

/// Finds what `name` stands for among the operation's operand groups, results and attributes.
void resolve(const OpInfo& info, std::string_view name, FormatItem& item) {
  item.text = name;
  if (item.group = info.operand_group(name); item.group >= 0) return;
  for (std::size_t i = 0; i < info.results.size(); ++i)
    if (info.results[i].name == name) item.result = static_cast<int>(i);
  if (item.result >= 0) return;
  for (const AttrInfo& a : info.attributes)
    if (name == text(a.name)) item.attribute = &a;
  if (!item.attribute) invalid(info, name);
}

/// `result:group` or `result:@attribute`.
void resolve_inferred(const OpInfo& info, std::string_view word, FormatItem& item) {
  const std::size_t colon = word.find(':');
  if (colon == std::string_view::npos) invalid(info, word);
  FormatItem from;
  std::string_view source = word.substr(colon + 1);
  if (source.starts_with('@')) source.remove_prefix(1);
  resolve(info, source, from);
  resolve(info, word.substr(0, colon), item);
  item.group = from.group;
  item.attribute = from.attribute;
}

void resolve_special(const OpInfo& info, std::string_view word, FormatItem& item) {
  if (word == "index") {
    item.kind = Kind::IndexTypes;
    resolve(info, word, item);
  } else if (word.starts_with("one:")) {
    item.kind = Kind::OneType;
    resolve(info, word.substr(4), item);
  } else if (word == "region" || word == "custom") {
    item.kind = word == "region" ? Kind::Region : Kind::Custom;
  } else {
    invalid(info, word);
  }
}

FormatItem read_item(const OpInfo& info, std::string_view word) {
  FormatItem item;
  item.glued = word.size() > 1 && word[0] == '~';
  if (item.glued) word.remove_prefix(1);
  const std::string_view rest = word.substr(1);
  switch (rest.empty() ? '\0' : word[0]) {
    case '$': item.kind = Kind::Values; break;
    case '%': item.kind = Kind::Types; break;
    case '@': item.kind = Kind::Attribute; break;
    case '^': item.kind = Kind::Switch; break;
    case '=':
      item.kind = Kind::Inferred;
      resolve_inferred(info, rest, item);
      return item;
    case '!': resolve_special(info, rest, item); return item;
    default: item.text = word; return item;
  }
  resolve(info, rest, item);
  return item;
}

std::vector<FormatItem> read_row(const OpInfo& info, std::string_view row) {
  std::vector<FormatItem> items;
  std::vector<std::size_t> open;  // the Optional items whose parenthesis is open
  while (!row.empty()) {
    const std::size_t blank = row.find(' ');
    std::string_view word = row.substr(0, blank);
    row = blank == std::string_view::npos ? std::string_view{} : row.substr(blank + 1);
    if (word == ")") {
      if (open.empty()) invalid(info, word);
      items[open.back()].end = items.size();
      open.pop_back();
    } else if (word[0] == '?' && word.back() == '(') {
      FormatItem item;
      item.kind = Kind::Optional;
      resolve(info, word.substr(1, word.size() - 2), item);
      open.push_back(items.size());
      items.push_back(item);
    } else {
      items.push_back(read_item(info, word));
    }
  }
  if (!open.empty()) invalid(info, "?");
  return items;
}

}  // namespace

std::span<const FormatItem> format_items(Op op) {
  static const auto forms = [] {
    std::array<std::vector<FormatItem>, 256> table;
#define TESSERA_IR_FORMAT(Name, format) table[static_cast<std::size_t>(Op::Name)] = read_row(info(Op::Name), format);
#include "ir/formats.def"
    return table;
  }();
  return forms[static_cast<std::size_t>(op)];
}

}  // namespace tessera::ir
