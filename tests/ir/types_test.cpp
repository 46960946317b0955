// Compares the language's element types with those of Tile IR.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "tessera/base/element.hpp"
#include "tessera/ir/types.hpp"

namespace tessera::ir {
namespace {

constexpr ElementType kAll[] = {
#define TESSERA_ELEMENT(name, ...) ElementType::name,
#include "tessera/base/element_types.def"
};

TEST(ElementsOfTheLanguage, HaveATileIrElementOfTheirSizeAndClass) {
  for (const ElementType t : kAll) {
    const ElementInfo& element = tessera::info(t);
    const ElemInfo& elem = info(elem_of(t));
    EXPECT_EQ(elem.bytes, size_of(t)) << element.name;
    EXPECT_EQ(elem.is_float, element.cls == ElementClass::Float) << element.name;
    // Names agree but for capitals, what follows a format's name (f8E4M3FN), and signs.
    std::string name = elem.text;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    std::string expected = element.name;
    if (element.cls == ElementClass::Unsigned) expected[0] = 'i';
    if (element.cls == ElementClass::Bool) expected = "i1";
    EXPECT_EQ(name.substr(0, expected.size()), expected);
  }
}

}  // namespace
}  // namespace tessera::ir
