// The run-time table of element types, from the one list in element_types.def.
#include "tessera/base/element.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

constexpr ElementInfo kElements[] = {
#define TESSERA_ELEMENT(name, host, ir, bits, cls) \
  {ElementType::name == ElementType::boolean ? "bool" : #name, bits, ElementClass::cls},
#include "tessera/base/element_types.def"
};

}  // namespace

const ElementInfo& info(ElementType type) {
  const auto index = static_cast<unsigned>(type);
  if (index >= sizeof kElements / sizeof kElements[0]) {
    throw InternalError("element type number " + std::to_string(index) + " does not exist");
  }
  return kElements[index];
}

}  // namespace tessera
