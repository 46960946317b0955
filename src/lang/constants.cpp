// Values of Constant parameters as text, for reports and errors.
#include <cstring>

#include "tessera/base/format.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera::lang {
namespace {

template <class T>
std::string text_of(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  if constexpr (std::is_arithmetic_v<T>)
    return concat(value);
  else
    return concat(static_cast<float>(value));
}

std::string value_text(ElementType type, std::uint64_t bits) {
  switch (type) {
#define TESSERA_ELEMENT(name, host, ...) \
  case ElementType::name: return text_of<host>(bits);
#include "tessera/base/element_types.def"
  }
  return "";
}

}  // namespace

std::string constants_text(std::span<const ParamInfo> params, std::span<const std::uint64_t> constants) {
  std::string text;
  for (const ParamInfo& p : params) {
    if (!p.is_constant()) continue;
    if (!text.empty()) text += ", ";
    text += value_text(p.element, constants[static_cast<std::size_t>(p.first_arg)]);
  }
  return text;
}

}  // namespace tessera::lang
