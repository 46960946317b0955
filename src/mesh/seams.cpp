// What the interfaces between ranks need out of line.
#include "mesh/exchange.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::mesh {

const char* text_of(Collective kind) noexcept {
  static constexpr const char* kTexts[] = {
#define TESSERA_COLLECTIVE(Name, text) text,
#include "tessera/mesh/collectives.def"
  };
  return kTexts[static_cast<unsigned>(kind)];
}

Communicator::~Communicator() = default;
Exchange::~Exchange() = default;

bool can_add(ElementType element) noexcept {
  switch (element) {
    case ElementType::tf32:
    case ElementType::f8e4m3:
    case ElementType::f8e5m2:
    case ElementType::boolean: return false;
    default: return true;
  }
}

void throw_group_failure(const GroupFailure& failure, const char* label, SourceLocation where) {
  throw MeshError(failure.rank < 0 ? concat(label, ": ", failure.reason)
                                   : concat(label, ": rank ", failure.rank, ": ", failure.reason),
                  where);
}

}  // namespace tessera::mesh
