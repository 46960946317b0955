// Records a kernel, verifies its IR and runs it on the CPU over plain host buffers.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "lang/dump_kernel.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/lang/lang.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera::test {

/// A row-major (or strided) tensor on the host.
template <class T>
struct Array {
  std::vector<T> data;
  std::vector<std::int64_t> dims, strides;

  explicit Array(std::vector<std::int64_t> shape, T fill = T{}) : dims(std::move(shape)), strides(dims.size(), 1) {
    for (std::size_t a = dims.size(); a-- > 1;) strides[a - 1] = strides[a] * dims[a];
    data.assign(static_cast<std::size_t>(dims.empty() ? 1 : strides[0] * dims[0]), fill);
  }
  template <class F>
  Array& each(F f) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = f(static_cast<std::int64_t>(i));
    return *this;
  }
  T& at(std::initializer_list<std::int64_t> index) {
    std::int64_t offset = 0;
    std::size_t a = 0;
    for (std::int64_t i : index) offset += i * strides[a++];
    return data[static_cast<std::size_t>(offset)];
  }
};

/// The argument slots of a launch.
class Slots {
 public:
  template <class T>
  void add(const Array<T>& a) {
    slots_.push_back(reinterpret_cast<std::uintptr_t>(a.data.data()));
    for (std::int64_t d : a.dims) slots_.push_back(static_cast<std::uint64_t>(d));
    for (std::int64_t s : a.strides) slots_.push_back(static_cast<std::uint64_t>(s));
  }
  template <class T>
    requires(std::is_arithmetic_v<T> || std::is_pointer_v<T>)
  void add(T value) {
    std::uint64_t slot = 0;
    std::memcpy(&slot, &value, sizeof value);
    slots_.push_back(slot);
  }
  const std::vector<std::uint64_t>& values() const { return slots_; }

 private:
  std::vector<std::uint64_t> slots_;
};

inline std::string problems(const ir::Module& module) {
  std::string text;
  for (const auto& d : ir::verify(module)) text += d.message + "\n";
  if (text.empty()) dump_if_asked(module);
  return text.empty() ? text : text + ir::print(module);
}

/// Runs K over `grid` blocks. Array arguments are written in place.
template <auto K, class... A>
void run(cpu::Grid grid, const lang::Specialization& specialization, A&... arguments) {
  auto trace = lang::trace<K>(specialization);
  ASSERT_EQ(problems(*trace.module), "");
  Slots slots;
  (slots.add(arguments), ...);
  if (lang::counts_blocks(trace.params)) slots.add(static_cast<std::int32_t>(grid.x));
  for (const auto& r : trace.requirements) ASSERT_TRUE(r.condition.holds(slots.values())) << r.message;
  for (const auto& s : trace.same_extents) ASSERT_TRUE(s.holds(slots.values())) << "line " << s.where.line;
  cpu::RunOptions options;
  options.threads = 1;
  cpu::Program::compile(*trace.module)->run(grid, slots.values(), options);
}

}  // namespace tessera::test
