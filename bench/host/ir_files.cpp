// How fast Tile IR is read and written, as text and as bytecode:
//
//   bench_ir_files [MB]    entries of 60 operations, a loop and a branch each, until the text has that size (default:
//   10)
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tessera/base/format.hpp"
#include "tessera/ir/ir.hpp"

namespace {

using namespace tessera::ir;

/// The text of an entry: loads, stores, arithmetic, views, constants.
std::string entry(int number) {
  std::string body;
  for (int i = 0; i < 40; ++i)
    body += tessera::concat("    %v", i + 1, " = ", i % 2 == 0 ? "addf" : "mulf", " %v", i, ", %x : tile<64x64xf32>\n");
  return tessera::concat(
      "entry @kernel_", number,
      "(%p: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<sm_90 = {occupancy = 2}> {\n"
      "  %tv = make_tensor_view %p, shape = [%n, 4096], strides = [4096, 1] : tile<i32> -> tensor_view<?x4096xf32, "
      "strides=[4096,1]>\n"
      "  %pv = make_partition_view %tv : partition_view<tile=(64x64), padding_value = zero, tensor_view<?x4096xf32, "
      "strides=[4096,1]>>\n"
      "  %i0 = constant <i32: 0> : tile<i32>\n  %i1 = constant <i32: 1> : tile<i32>\n"
      "  %x = constant <f32: ",
      number,
      ".5> : tile<64x64xf32>\n  %t = make_token : token\n"
      "  %sum, %last = for %k in (%i0 to %n, step %i1) : tile<i32> iter_values(%v0 = %x, %u = %t) -> (tile<64x64xf32>, "
      "token) {\n"
      "    %w, %r = load_view_tko weak %pv[%k, %i0] token = %u : partition_view<tile=(64x64), padding_value = zero, "
      "tensor_view<?x4096xf32, strides=[4096,1]>>, tile<i32> -> tile<64x64xf32>, token\n",
      body,
      "    %c = cmpi less_than %k, %n, signed : tile<i32> -> tile<i1>\n    if %c {\n"
      "      %m = print_tko \"k %d\\0A\", %k : tile<i32> -> token\n    }\n"
      "    %f = fma %v40, %w, %x : tile<64x64xf32>\n    continue %f, %r : tile<64x64xf32>, token\n  }\n"
      "  %s = store_view_tko weak %sum, %pv[%i0, %i0] token = %last : tile<64x64xf32>, partition_view<tile=(64x64), "
      "padding_value = zero, tensor_view<?x4096xf32, strides=[4096,1]>>, tile<i32> -> token\n  return\n}\n");
}

/// The least time of five calls, in milliseconds.
template <class F>
double measured(F f) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const double wanted = (argc > 1 ? std::atof(argv[1]) : 10) * 1e6;
  std::string source;
  for (int n = 0; static_cast<double>(source.size()) < wanted; ++n) source += entry(n);
  const auto module = parse(source);
  const std::string text = print(*module);
  const std::vector<std::byte> bytes = write_bytecode(*module);
  std::size_t operations = 0;
  for (const auto& f : module->functions) walk(f->body(), [&](const Operation&) { ++operations; });
  std::printf("%.1f MB of text, %.1f MB of bytecode, %zu operations\n", static_cast<double>(text.size()) / 1e6,
              static_cast<double>(bytes.size()) / 1e6, operations);
  const auto row = [&](const char* what, double ms) { std::printf("%-28s %8.1f ms\n", what, ms); };
  row("parse", measured([&] { parse(text); }));
  row("parse, not verified", measured([&] { parse(text, {.verify = false}); }));
  row("verify", measured([&] { verify(*module); }));
  row("print", measured([&] { print(*module); }));
  row("read_bytecode", measured([&] { read_bytecode(bytes); }));
  row("read_bytecode, not verified", measured([&] { read_bytecode(bytes, {.verify = false}); }));
  row("write_bytecode", measured([&] { write_bytecode(*module); }));
  return 0;
}
