// The parts of operations that need no template.
#include "tessera/host/op.hpp"

#include "tessera/base/error.hpp"

namespace tessera::detail {

OpBase::~OpBase() = default;
bool OpBase::compile(const CompileRequest&, jit::CodeReport&) { return false; }
runtime::Backend* OpBase::device() const noexcept { return nullptr; }
bool OpBase::promise(std::span<std::int64_t>, std::span<std::int64_t>) const noexcept { return false; }

void throw_spent_op(SourceLocation where) {
  throw BorrowError(
      "this operation has been run or moved already: an Op runs once.\n  Build it again, or keep its result instead of "
      "the operation.",
      where);
}

Stream stream_for(const OpBase& op) {
  runtime::Backend* backend = op.device();
  return Stream::default_of(backend ? Device(*backend) : default_device());
}

}  // namespace tessera::detail
