// Tile IR as text and as bytecode: what is read goes through the verifier, and is a fixed point of both forms.
#include "fuzz/fuzz.hpp"
#include "ir/fixed_point.hpp"

namespace tessera::fuzz {
namespace {

/// Programs that have, together, every form of operation, type and attribute.
constexpr const char* kPrograms[] = {
    R"(// Producer: a "producer"
global private constant @table alignment = 16 <f32: [1.0, -2.5, 0x7F800000, 4.0]> : tile<4xf32>
global @"odd name" <i1: [true, false]> : tile<2xi1>
entry @k(%p: tile<ptr<f32>>, %n: tile<i32>, %f: tile<f32>) optimization_hints=<default = {occupancy = 2}, sm_90 = {num_cta_in_cga = 2, num_worker_warps_per_cta = 8}> {
  %g = get_global @table : tile<ptr<f32>>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %d = assume div_by<16>, %n : tile<i32>
  %b = assume bounded<0, ?>, %d : tile<i32>
  %c = cmpi less_than %x, %b, signed : tile<i32> -> tile<i1>
  if %c {
    %t = print_tko "n %d\0A", %n : tile<i32> -> token
  } else {
    assert %c, "out of \"bounds\"" : tile<i1>
  }
  %r = divi %b, %n signed rounding<negative_inf> : tile<i32>
  %e = exp %f rounding<approx> : tile<f32>
  %m = maxf %e, %f flush_to_zero propagate_nan : tile<f32>
  return
}
)",
    R"(func @empty(%n: tile<i32>) {
  return
}
entry @sums(%p: tile<ptr<f32>>, %n: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %acc = constant <f32: 0.0> : tile<64xf32>
  %i = iota : tile<64xi32>
  %r = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
  %b = broadcast %r : tile<1xptr<f32>> -> tile<64xptr<f32>>
  %o = offset %b, %i : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
  %tok = make_token : token
  %sum, %last = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%a = %acc, %t = %tok) -> (tile<64xf32>, token) {
    %v, %u = load_ptr_tko weak %o token=%t optimization_hints = <sm_90 = {latency = 4}> : tile<64xptr<f32>> -> tile<64xf32>, token
    %s = addf %a, %v rounding<zero> : tile<64xf32>
    continue %s, %u : tile<64xf32>, token
  }
  %max = reduce %sum dim=0 identities=[0xFF800000 : f32] : tile<64xf32> -> tile<f32>
  (%l: tile<f32>, %h: tile<f32>) {
    %w = maxf %l, %h : tile<f32>
    yield %w : tile<f32>
  }
  %scan = scan %sum dim=0 reverse=true identities=[0.0 : f32] : tile<64xf32> -> tile<64xf32>
  (%l: tile<f32>, %h: tile<f32>) {
    %w = addf %l, %h : tile<f32>
    yield %w : tile<f32>
  }
  %found = loop iter_values(%j = %zero) : tile<i32> -> tile<i32> {
    %c = cmpi equal %j, %n, signed : tile<i32> -> tile<i1>
    if %c {
      break %j : tile<i32>
    }
    %j1 = addi %j, %one overflow<no_signed_wrap> : tile<i32>
    continue %j1 : tile<i32>
  }
  %old, %done = atomic_rmw_tko relaxed device %o, addf, %scan token=%last : tile<64xptr<f32>>, tile<64xf32> -> tile<64xf32>, token
  return
}
)",
    R"(entry @views(%p: tile<ptr<f16>>, %n: tile<i32>, %i: tile<i32>) {
  %tv = make_tensor_view %p, shape = [%n, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
  %pv = make_partition_view %tv : partition_view<tile=(32x32), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
  %pt = make_partition_view %tv : partition_view<tile=(16x32), tensor_view<?x64xf16, strides=[64,1]>, dim_map=[1, 0]>
  %sv = make_strided_view %tv : strided_view<tile=(8x8), traversal_strides=[4,4], padding_value = nan, tensor_view<?x64xf16, strides=[64,1]>>
  %gv = make_gather_scatter_view %tv : gather_scatter_view<tile=(8x8), tensor_view<?x64xf16, strides=[64,1]>, sparse_dim=0>
  %shape:2 = get_index_space_shape %pv : partition_view<tile=(32x32), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>> -> tile<i32>
  %ids = iota : tile<8xi32>
  %a, %ta = load_view_tko weak %pv[%i, %shape#1] inbounds = [true, false] : partition_view<tile=(32x32), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x32xf16>, token
  %g, %tg = load_view_tko relaxed device %gv[%ids, %i] token = %ta : gather_scatter_view<tile=(8x8), tensor_view<?x64xf16, strides=[64,1]>, sparse_dim=0>, tile<8xi32>, tile<i32> -> tile<8x8xf16>, token
  %zero = constant <f32: 0.0> : tile<32x32xf32>
  %t = permute %a [1, 0] : tile<32x32xf16> -> tile<32x32xf16>
  %m = mmaf %a, %t, %zero : tile<32x32xf16>, tile<32x32xf16>, tile<32x32xf32>
  %h = ftof %m : tile<32x32xf32> -> tile<32x32xf16>
  %j = join_tokens %ta, %tg : token
  %st = store_view_tko weak %h, %pv[%i, %i] token = %j : tile<32x32xf16>, partition_view<tile=(32x32), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> token
  return
} loc("k.cpp":3:1)
)",
    "entry @c() {\n  %0 = constant <i64: [[1, 2], [3, -4]]> : tile<2x2xi64> loc(\"k.cpp\":4:2)\n"
    "  %1 = constant <i1: [true, false, true, true]> : tile<4xi1> loc(unknown)\n"
    "  %2 = constant <tf32: [1.0, 0x3FC00]> : tile<2xtf32>\n  %3 = constant <bf16: -0.5> : tile<8xbf16>\n"
    "  return\n} loc(\"k.cpp\":1:1)\n",
};

void require_fixed_points(const ir::Module& module) {
  const std::string text = ir::testing::text_problem(module), bytecode = ir::testing::bytecode_problem(module);
  if (!text.empty() || !bytecode.empty()) std::fprintf(stderr, "%s\n%s\n", text.c_str(), bytecode.c_str());
  FUZZ_REQUIRE(text.empty() && bytecode.empty());
}

}  // namespace

void fuzz_ir_text(Bytes bytes) {
  std::unique_ptr<ir::Module> module;
  if (accepted([&] { module = ir::parse(text_of(bytes)); })) return require_fixed_points(*module);
  // The verifier survives all that is read.
  if (accepted([&] { module = ir::parse(text_of(bytes), {.verify = false}); }))
    FUZZ_REQUIRE(!ir::verify(*module).empty());
}

Seeds seeds_ir_text() {
  Seeds seeds;
  for (const char* program : kPrograms) {
    const auto module = ir::parse(program);
    seeds.push_back(program);
    seeds.push_back(ir::print(*module, {true}));
  }
  return seeds;
}

void fuzz_ir_bytecode(Bytes bytes) {
  ir::ReadModule read;
  if (accepted([&] { read = ir::read_bytecode(bytes); })) return require_fixed_points(*read.module);
  if (accepted([&] { read = ir::read_bytecode(bytes, {.verify = false}); }))
    FUZZ_REQUIRE(!ir::verify(*read.module).empty());
}

Seeds seeds_ir_bytecode() {
  Seeds seeds;
  for (const char* program : kPrograms) {
    const auto module = ir::parse(program);
    for (const ir::BytecodeVersion version : {ir::required_version(*module), ir::BytecodeVersion()})
      seeds.push_back(seed_of(ir::write_bytecode(*module, {version, true})));
  }
  return seeds;
}

}  // namespace tessera::fuzz
