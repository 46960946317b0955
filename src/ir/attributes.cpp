// The members of Attribute that need all alternatives of its variant.
#include "tessera/ir/attributes.hpp"

namespace tessera::ir {

Attribute::Attribute() = default;
Attribute::Attribute(UnitAttr value) : value_(value) {}
Attribute::Attribute(Bool b) : value_(b.value) {}
Attribute::Attribute(IntAttr value) : value_(value) {}
Attribute::Attribute(FloatAttr value) : value_(value) {}
Attribute::Attribute(EnumAttr value) : value_(value) {}
Attribute::Attribute(std::string value) : value_(std::move(value)) {}
Attribute::Attribute(const char* value) : value_(std::string(value)) {}
Attribute::Attribute(Type value) : value_(value) {}
Attribute::Attribute(DenseAttr value) : value_(std::move(value)) {}
Attribute::Attribute(DivByAttr value) : value_(value) {}
Attribute::Attribute(SameElementsAttr value) : value_(std::move(value)) {}
Attribute::Attribute(BoundedAttr value) : value_(value) {}
Attribute::Attribute(DictAttr value) : value_(std::move(value)) {}
Attribute::Attribute(ArrayAttr value) : value_(std::move(value)) {}
Attribute::Attribute(I32ArrayAttr value) : value_(std::move(value)) {}
Attribute::Attribute(BoolArrayAttr value) : value_(std::move(value)) {}
Attribute::Attribute(const Attribute&) = default;
Attribute::Attribute(Attribute&&) noexcept = default;
Attribute& Attribute::operator=(const Attribute&) = default;
Attribute& Attribute::operator=(Attribute&&) noexcept = default;
Attribute::~Attribute() = default;
bool Attribute::operator==(const Attribute&) const = default;

bool DictAttr::operator==(const DictAttr& o) const { return entries == o.entries; }
bool ArrayAttr::operator==(const ArrayAttr& o) const { return items == o.items; }

}  // namespace tessera::ir
