// Numbers of Tile IR bytecode that writer and reader share.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/format.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/ir/types.hpp"

namespace tessera::ir {

inline constexpr std::string_view kBytecodeMagic("\x7fTileIR\0", 8);
inline constexpr BytecodeVersion kOldestBytecode{13, 1};
inline constexpr BytecodeVersion kNewestBytecode{13, 4};

inline std::string version_text(BytecodeVersion v) { return concat(int{v.major}, ".", int{v.minor}); }

/// Sections of a file.
enum Section : std::uint8_t {
  kEnd = 0,
  kString = 1,
  kFunc = 2,
  kDebug = 3,
  kConstant = 4,
  kType = 5,
  kGlobal = 6,
  kProducer = 7
};
/// The bit of a section's first byte that says that an alignment follows.
inline constexpr std::uint8_t kAligned = 0x80;

/// The bits of a function's flags.
enum FunctionFlag : std::uint8_t { kPrivateFunction = 1, kEntryFunction = 2, kHintedFunction = 4 };

/// Type tags beyond the elements' (BytecodeTypeOpcodes.td).
enum TypeTag : std::uint8_t {
  kPointer = 12,
  kTile = 13,
  kTensorView = 14,
  kPartitionView = 15,
  kFunction = 16,
  kToken = 17,
  kGatherScatterView = 20,
  kStridedView = 21
};

/// Tags of self-contained attributes (BytecodeAttrOpcodes.td).
enum AttrTag : std::uint8_t {
  kIntegerAttr = 1,
  kFloatAttr = 2,
  kBoolAttr = 3,
  kTypeAttr = 4,
  kStringAttr = 5,
  kArrayAttr = 6,
  kDenseAttr = 7,
  kDivByAttr = 8,
  kSameElementsAttr = 9,
  kDictionaryAttr = 10,
  kHintsAttr = 11,
  kBoundedAttr = 12
};

enum DebugTag : std::uint8_t { kCompileUnit = 1, kFile = 2, kLexicalBlock = 3, kLocation = 4, kSubprogram = 5 };

/// Bits of an element on the wire. tf32 is its 19 significant bits there, the high end of 32 bits in memory.
inline int wire_bits(Elem e) { return e == Elem::TF32 ? 19 : info(e).bits; }
inline constexpr int kTf32Shift = 13;

inline std::uint64_t mask_of(int bits) { return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1; }

}  // namespace tessera::ir
