// Random programs. Program n is a function of the number n alone: the same on every machine and compiler.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "generate/program.hpp"

namespace tessera::generate {

Program random_program(std::uint64_t seed);
/// A program with two operations, one after the other or beside each other: scans, reductions, products, gathers and
/// changes of layout, of every extent from 1 to 256, along every axis, of every element type. Any kPairs consecutive
/// numbers have each pair once. Larger tiles than random_program() has.
Program random_pair(std::uint64_t number);
inline constexpr int kPairedOperations = 13, kPairs = kPairedOperations * kPairedOperations;
/// The compute capability that pair number `number` is for: another one by turns.
int gpu_of_pair(std::uint64_t number);

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) { next(); }
  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  int between(int lo, int hi) { return lo + below(hi - lo + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(static_cast<int>(from.size())))];
  }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return from.begin()[below(static_cast<int>(from.size()))];
  }

 private:
  std::uint64_t state_;
};

/// Launches at and around the boundaries of the program's tiles.
void add_random_launches(Program&, Random&, int count);

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) { p_.seed = seed; }
  Program make();

 protected:
  struct Variable {
    int id;
    Type type;
    bool assignable;
  };
  /// A tensor as a grid of tiles, so that counts and loads refer to the same grid.
  struct Grid {
    std::int64_t tensor;
    Type tile;
  };

  /// Inside a branch: its condition bounds `v` along an axis of the grid.
  struct Guard {
    Node v;
    Grid grid;
    int axis;
  };

  // Parameters.
  void parameters();
  void outputs();
  void add_param(ParamKind kind, ElementType elem, std::vector<int> extents);
  std::vector<int> piece_extents(int rank, bool parts);
  void grids();
  ElementType element();
  void add_function();

  // Statements.
  Node body(int statements);
  void statement(std::vector<Node>& out);
  void branch(std::vector<Node>& out);
  bool host_control(std::vector<Node>& out);
  void loop(std::vector<Node>& out);
  void while_loop(std::vector<Node>& out);
  void tile_loop(std::vector<Node>& out, int param);
  void assign(std::vector<Node>& out);
  void write(std::vector<Node>& out);
  void accumulate(std::vector<Node>& out);
  void call(std::vector<Node>& out);
  void requirement(std::vector<Node>& out);
  void declare(std::vector<Node>& out, const Type&, Node value);
  Node final_value(const Type&);
  bool guarded_statement(std::vector<Node>& out);
  void copy_or_overwrite(std::vector<Node>& out);

  // Values.
  Node value(const Type&, int depth);
  Node tile(const Type&, int depth);
  Node scalar(ElementType, int depth);
  Node index(int depth = 2);     ///< i32, often about a count or a loop's variable
  Node small_index(int extent);  ///< i32, mostly in [0, extent)
  Node condition(int depth = 1);
  Node compare(const Type&, int depth);
  Node operation(const Type&, int depth);
  Node cast_from(const Type&, int depth);
  Node reshaped(const Type&, int depth);
  Node reduced(const Type&, int depth);
  Node product(const Type&, int depth);
  bool load(const Type&, Node& out);
  Node load_grid(const Grid&);
  Node near_guard();  ///< an index computed from one that an enclosing branch bounds
  Node gather(std::int64_t tensor, const Type&);
  Node number(const Type&);
  Node leaf_index();
  Node position_tile(const Type&);            ///< integers used as indices, of this shape
  Node bounded(Node, ElementType, int most);  ///< a whole number between -most and most, of a float
  void pad(Node&, ElementType);

  static Kind argument_of(const Param& p) {
    return p.kind == ParamKind::Constant ? Kind::ConstantArg : Kind::ScalarArg;
  }
  Node int32(std::int64_t v) { return Node{Kind::Number, {v}}; }
  const Variable* find(const Type&, bool assignable);
  std::vector<std::int64_t> pieces();  ///< the pieces that can be stored now
  int new_var() { return next_var_++; }
  bool spend(int n = 1) { return (budget_ -= n) > 0; }

  Random random_;
  Program p_;
  std::vector<Variable> vars_;
  std::vector<Grid> grids_;
  std::vector<Guard> guards_;    ///< of the enclosing branches
  std::optional<Guard> latest_;  ///< of the condition made last
  std::vector<int> open_tile_loops_;
  std::vector<std::pair<int, int>> orders_;  ///< by parameter: the order of its tile loops
  std::map<std::size_t, int> operations_;    ///< by parameter: how it accumulates
  int next_var_ = 0, depth_ = 0, budget_ = 0;
  bool in_function_ = false;
};

}  // namespace tessera::generate
