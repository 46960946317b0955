// Runs a kernel of one block on the CPU backend over host memory, for tests of the language.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "lang/dump_kernel.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/lang/lang.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera::test {

/// The argument slots of a launch.
class Arguments {
 public:
  /// A contiguous tensor.
  template <class T>
  Arguments& tensor(T* data, std::vector<std::uint64_t> dims) {
    slots_.push_back(reinterpret_cast<std::uint64_t>(data));
    slots_.insert(slots_.end(), dims.begin(), dims.end());
    std::vector<std::uint64_t> strides(dims.size(), 1);
    for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
    slots_.insert(slots_.end(), strides.begin(), strides.end());
    return *this;
  }
  template <class T>
  Arguments& vector(std::vector<T>& data) {
    return tensor(data.data(), {data.size()});
  }
  template <class T>
  Arguments& scalar(T value) {
    std::uint64_t slot = 0;
    std::memcpy(&slot, &value, sizeof value);
    slots_.push_back(slot);
    return *this;
  }
  const std::vector<std::uint64_t>& slots() const { return slots_; }

 private:
  std::vector<std::uint64_t> slots_;
};

template <auto K>
void run(const Arguments& arguments, std::uint32_t blocks = 1) {
  const lang::Trace trace = lang::trace<K>();
  ir::verify_or_throw(*trace.module);
  test::dump_if_asked(*trace.module);
  const auto program = cpu::Program::compile(*trace.module);
  cpu::RunOptions options;
  options.threads = 1;
  program->run({blocks, 1, 1}, arguments.slots(), options);
}

template <auto K>
std::string text() {
  const lang::Trace trace = lang::trace<K>();
  ir::verify_or_throw(*trace.module);
  test::dump_if_asked(*trace.module);
  return ir::print(*trace.module->functions.front());
}

inline int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

/// The TraceError of a kernel.
template <auto K>
TraceError trace_error() {
  try {
    (void)lang::trace<K>();
  } catch (const TraceError& e) {
    EXPECT_EQ(lang::Tracer::maybe(), nullptr) << "the failed trace is still current";
    return e;
  }
  ADD_FAILURE() << "expected a TraceError";
  return TraceError("none");
}

}  // namespace tessera::test
