// A generated kernel and its launches: a tree that can be recorded through the kernel language (record.hpp), computed
// naively (reference.hpp), printed as a C++ program (cpp_text.hpp), written to text and read again, and made smaller
// (reduce.hpp).
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/element.hpp"
#include "tessera/lang/access.hpp"
#include "tessera/lang/emit.hpp"

namespace tessera::generate {

enum class Kind : std::uint8_t {
#define GENERATE_KIND(Name, word, Class, op, cpp) Name,
#include "generate/kinds.def"
};
enum class KindClass : std::uint8_t { Leaf, Load, Unary, Binary, Compare, Other, Reduce, Scan, Statement };
struct KindInfo {
  const char* word;
  KindClass cls;
  int op;  ///< of lang: a UnaryOp, BinaryOp, CompareOp or ReduceOp, as the class says
  const char* cpp;
};
const KindInfo& info(Kind);

inline constexpr int kMaxAxes = 3;

/// Element type and extents of a tile.
struct Type {
  ElementType elem = ElementType::i32;
  int rank = 0;
  std::array<int, kMaxAxes> extents{};

  static Type scalar(ElementType e) { return {e, 0, {}}; }
  static Type of(ElementType e, std::initializer_list<int> extents);
  int size() const;
  int operator[](int axis) const { return extents[static_cast<std::size_t>(axis)]; }
  int& operator[](int axis) { return extents[static_cast<std::size_t>(axis)]; }
  Type with(ElementType e) const { return {e, rank, extents}; }
  Type with_extent(int axis, int n) const;
  bool operator==(const Type&) const = default;
  lang::TileSpec spec() const { return {elem, rank, extents.data()}; }
  lang::Extents span() const { return {extents.data(), static_cast<std::size_t>(rank)}; }
};
bool is_float(ElementType);
bool is_integer(ElementType);  ///< not bool
bool is_signed(ElementType);
bool computes(ElementType);  ///< has arithmetic

struct Node {
  Kind kind = Kind::Body;
  std::vector<std::int64_t> n = {};  ///< the numbers of its row in kinds.def
  std::vector<Node> kids = {};
  Type given = {};  ///< where the kind has one
  Type type = {};   ///< of the value; set by check()
  int line = 0;     ///< of its statement in to_text(); set by set_lines()
};

enum class ParamKind : std::uint8_t { Mut, MutTiles, In, Scalar, Acc, Constant };
struct Param {
  ParamKind kind = ParamKind::In;
  ElementType elem = ElementType::i32;
  std::vector<int> extents;  ///< Mut, MutTiles: the piece; In, Acc: static extents or -1
  int rank() const { return static_cast<int>(extents.size()); }
  bool is_tensor() const { return kind != ParamKind::Scalar && kind != ParamKind::Constant; }
  bool has_pieces() const { return kind == ParamKind::Mut || kind == ParamKind::MutTiles; }
};

/// An In with its axes in another order: tensor number kFirstView + its place in Program::views.
struct View {
  int param = 0;
  std::vector<int> order;
};
inline constexpr int kFirstView = 100;

/// A helper function: its parameters become variables. By reference: an argument is a `Var`.
struct Function {
  struct Parameter {
    int var = 0;
    Type type;
    bool by_reference = false;
  };
  std::vector<Parameter> params;
  Node body;
};

/// The layout of a tensor in memory.
struct Layout {
  std::vector<std::int64_t> dims, strides;  ///< in elements
  std::int64_t before = 0, after = 0;       ///< elements of the storage before and after the view
  std::uint64_t fill = 0;                   ///< seed of the elements
};
struct Launch {
  std::vector<Layout> tensors;  ///< one per tensor parameter, in order
  /// One per Scalar and Constant, in order: integers as they are, floats in quarters.
  std::vector<std::int64_t> scalars;
  int blocks = 1;          ///< where the kernel has no Mut
  bool wide_grid = false;  ///< the blocks lie in a grid of two axes
};

struct Program {
  std::uint64_t seed = 0;
  std::vector<Param> params;
  std::vector<View> views;
  std::vector<Function> functions;
  Node body;
  std::vector<Launch> launches;
};

// Pieces are numbered by parameter and part: param * kParts + part; the whole of a piece with parts is part kWhole.
inline constexpr int kParts = 8, kWhole = 7;
inline int param_of(std::int64_t piece) { return static_cast<int>(piece) / kParts; }
inline int part_of(std::int64_t piece) { return static_cast<int>(piece) % kParts; }
/// The axis of a piece that has parts, or -1.
int part_axis(const Param&);
std::vector<int> parts_of(int extent);  ///< powers of two, largest first
/// Extents of a piece or a part of it.
Type piece_type(const Program&, std::int64_t piece);
/// Element type and static extents (or -1) of a tensor or view.
Type tensor_type(const Program&, std::int64_t tensor);

/// Sets the types of all nodes. Returns the error, or nothing.
std::string check(Program&);

/// True if a list of statements records something whatever its Constants are: an arm of tile_if must.
bool records(const Node& body);

std::string to_text(const Program&);
/// Sets the line of every node. What is recorded then names these lines, as that of a user does those of its source.
void set_lines(Program&);
/// Throws std::runtime_error for text that to_text() would not write.
Program from_text(std::string_view);
std::string to_text(const Type&);

/// Calls f(Node&) for every node, outer before inner.
template <class F>
void each_node(Node& node, F&& f) {
  f(node);
  for (Node& kid : node.kids) each_node(kid, f);
}

}  // namespace tessera::generate
