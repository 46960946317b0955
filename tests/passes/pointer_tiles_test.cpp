// Tiles of pointers touch the elements that the view's tile holds, and no others, up to the end of the tensor.
#include <numeric>

#include "passes/pass_support.hpp"
#include "tessera/codegen/cpu/program.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

using Tile = std::vector<std::int32_t>;
constexpr std::int32_t kTile = 4, kExtent = 806, kAround = 2048;

/// Stores the tile of a vector of 806 numbers at an index that is an argument; the vector's extent is one too, or
/// fixed.
struct CopyTile {
  Kernel k;
  ir::Function* f = nullptr;
  bool fixed;
  explicit CopyTile(bool is_fixed, Elem index_type = Elem::I32) : fixed(is_fixed) {
    const Value x = fixed ? fixed_view() : k.view(Elem::I32, {kTile}, ir::PaddingValue::Zero);
    const Value index = k.arg(index_type), out = k.view(Elem::I32, {kTile});
    k.store(k.load(x, {index})->result(), out, {k.i32(0)});
    f = &k.function();
  }
  Value fixed_view() {
    const std::vector<std::int64_t> shape{kExtent}, strides{1};
    const std::vector<std::int32_t> tile{kTile};
    const std::vector<Value> base{k.pointer(Elem::I32)};
    const std::vector<std::uint32_t> groups{1, 0, 0};
    const std::vector<Type> type{Type::tensor_view(Elem::I32, shape, strides)};
    const Value tensor = k.b.create_grouped(Op::MakeTensorView, base, groups, type)->result();
    return k.op(Op::MakePartitionView, {tensor}, Type::partition_view(tensor.type(), tile, {}, ir::PaddingValue::Zero));
  }
  Tile run(std::uint32_t index) const {
    Tile memory(kAround + kExtent + kAround), out(kTile, -1);
    std::iota(memory.begin(), memory.end(), -kAround);  // the vector holds 0, 1, ...
    std::vector<std::uint64_t> slots{reinterpret_cast<std::uintptr_t>(&memory[kAround])};
    if (!fixed) slots.push_back(kExtent);
    slots.insert(slots.end(), {index, reinterpret_cast<std::uintptr_t>(out.data()), kTile});
    cpu::Program::compile(k.module)->run({}, slots, {});
    return out;
  }
  void use_pointers() {
    passes::choose_access_paths(*f, {90, 132}, passes::parse_tuning("access=pointer"));
    EXPECT_EQ(problems_of(k.module), "");
    ASSERT_EQ(count(*f, Op::LoadViewTko), 0u);
  }
};

TEST(PointerTiles, TheLastTileIsPaddedBehindTheTensor) {
  for (const bool fixed : {false, true}) {
    for (const bool pointers : {false, true}) {
      CopyTile copy(fixed);
      if (pointers) copy.use_pointers();
      EXPECT_EQ(copy.run(0), (Tile{0, 1, 2, 3}));
      EXPECT_EQ(copy.run(200), (Tile{800, 801, 802, 803}));
      EXPECT_EQ(copy.run(201), (Tile{804, 805, 0, 0}));
    }
  }
}

TEST(PointerTiles, AnIndexOfAnyTypeIsUnsigned) {
  for (const bool pointers : {false, true}) {
    CopyTile copy(false, Elem::I8);
    if (pointers) copy.use_pointers();
    EXPECT_EQ(copy.run(3), (Tile{12, 13, 14, 15}));
    EXPECT_EQ(copy.run(200), (Tile{800, 801, 802, 803}));
    EXPECT_EQ(copy.run(201), (Tile{804, 805, 0, 0}));
  }
}

}  // namespace THIS_FILE
