// Text of tensors: reads the elements back and formats them (array_text.hpp).
#include "tessera/host/print.hpp"

#include <cstdio>

#include "host/array_text.hpp"
#include "host/work.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/at_line.hpp"

namespace tessera::detail {

std::string describe(const ArgRef& x, int rank, const char* type, SourceLocation where) {
  ReadOperand operand;
  operand.bind(x, rank, "print", where);
  const LayoutRef l = operand.layout();
  const Device device = (*l.storage)->device();
  const std::string head =
      concat(type_text(type, l.element, rank), " ", extents_text(l.dims), " on ", device.name(), "\n");
  if (device.backend().host_accessible()) {
    runtime::at_line(where, [&] { (*l.storage)->wait_written(); });
    return head + array_text({l.element, l.data(), l.dims, l.strides});
  }
  const std::size_t bytes = static_cast<std::size_t>(l.size()) * static_cast<std::size_t>(size_of(l.element));
  const auto values = host_buffer(bytes, "print", where);
  read_back(l, values.get(), "print", where);
  std::int64_t dense[kMaxRank];
  const std::span<std::int64_t> strides(dense, l.dims.size());
  set_contiguous(l.dims, strides);
  return head + array_text({l.element, values.get(), l.dims, strides});
}

void write_line(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

}  // namespace tessera::detail
